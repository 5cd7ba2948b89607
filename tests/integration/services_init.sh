#!/bin/bash
# Becomes systemd in namespaces of its own (test_services.py), where only our units are known: /etc is
# an overlay, /run, /var/lib and /opt are new. Arguments: the build directory, then the command
# that installs the units, which lacks its prefix.
set -e
build=$1
shift
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/etc/upper /run/etc/work /run/systemd/system /run/home
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work overlay /etc
mount -t tmpfs -o mode=755 tmpfs /opt
mkdir -p /opt/rt/bin /etc/rt
for program in rt rt-head rt-worker rt-shim rt-cli; do
  cp "$build/bin/$program" /opt/rt/bin
done
"$@" /opt/rt
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t cgroup2 cgroup2 /sys/fs/cgroup
rm -rf /etc/systemd/system/*
systemd-sysusers /opt/rt/lib/sysusers.d/rt.conf
cp /opt/rt/lib/systemd/system/*.service /run/systemd/system
for unit in rt-head rt-worker; do
  mkdir "/run/systemd/system/$unit.service.d"
  printf '[Unit]\nDefaultDependencies=no\n[Service]\nWatchdogSec=2\nStandardOutput=append:%s\n' \
    "/run/$unit.log" > "/run/systemd/system/$unit.service.d/test.conf"
done
printf '[Unit]\nDefaultDependencies=no\n' > /run/systemd/system/network-online.target
printf '[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\n' > /run/systemd/system/test.target
printf 'RT_HEAD_LISTEN=127.0.0.1:7070\n' > /etc/rt/head.env
printf 'RT_WORKER_HEAD=127.0.0.1:7070\nRT_WORKER_FLAGS=--name one\n' > /etc/rt/worker.env
ip link set lo up
exec env -i container=rt "PATH=$PATH" /lib/systemd/systemd --system --unit=test.target \
  --log-target=console --show-status=0
