#!/usr/bin/env bash
# Installs what building and testing need from Debian's packages. Safe to run twice: packages
# that are there are left alone, and the network is not touched when nothing is missing.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config git ca-certificates
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libyaml-cpp-dev libcli11-dev catch2 rapidjson-dev libcpp-httplib-dev libsqlite3-dev libpq-dev libssl-dev zlib1g-dev libre2-dev libc-ares-dev
  libcurl4-openssl-dev libzstd-dev libpugixml-dev libeigen3-dev
  librust-blake3-dev
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14
  postgresql
  curl openssh-client openssh-server
  shellcheck
  python3 python3-venv python3-pip procps iproute2 iptables systemd zsh fish
)
# Nice to have: the build and the tests go on without them, and say so.
optional=(mold ccache)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      echo "$package"
  done
}

if ! command -v apt-get >/dev/null; then
  echo "install-deps: this is not a Debian system; install the equivalents of: ${packages[*]}" >&2
  exit 1
fi
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t wanted < <(missing_of "${optional[@]}")
if [ "${#missing[@]}" = 0 ] && [ "${#wanted[@]}" = 0 ]; then
  echo "install-deps: every package is there"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
echo "install-deps: installing ${missing[*]} ${wanted[*]}"
# The tests start a database of their own: the package is not to leave one running.
if printf '%s\n' "${missing[@]}" | grep -qx postgresql; then
  as_root mkdir -p /etc/postgresql-common/createcluster.d
  echo "create_main_cluster = false" |
    as_root tee /etc/postgresql-common/createcluster.d/rt.conf >/dev/null
fi
# The same of the ssh daemon, which also honours this file when the machine starts again.
if printf '%s\n' "${missing[@]}" | grep -qx openssh-server; then
  as_root mkdir -p /etc/ssh
  as_root touch /etc/ssh/sshd_not_to_be_run
  echo "install-deps: the ssh daemon is for the tests and is not started; to start one of your own," \
    "remove /etc/ssh/sshd_not_to_be_run"
fi
as_root apt-get update -qq
if [ "${#missing[@]}" -gt 0 ]; then
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
for package in "${wanted[@]}"; do
  as_root apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
    echo "install-deps: left out $package (optional: the build is only slower)"
done
echo "install-deps: done"
