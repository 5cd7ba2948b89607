#!/usr/bin/env bash
# Prints the path of Prometheus' promtool: the one in PATH, or else the one of Debian's package,
# unpacked below build/ (installing the package would start a server on this machine).
set -euo pipefail
cd "$(dirname "$0")/../.."
if command -v promtool; then exit 0; fi
directory=$PWD/build/promtool
if [ ! -x "$directory/usr/bin/promtool" ]; then
  mkdir -p "$directory/partial"
  chmod 755 "$directory" "$directory/partial"
  cd "$directory/partial"
  apt-get download prometheus >&2 || {
    if [ "$(id -u)" = 0 ]; then apt-get update -qq >&2; else sudo apt-get update -qq >&2; fi
    apt-get download prometheus >&2
  }
  dpkg-deb -x prometheus_*.deb .
  mkdir -p "$directory/usr/bin"
  mv usr/bin/promtool "$directory/usr/bin/promtool"
  cd "$directory"
  rm -r partial
fi
echo "$directory/usr/bin/promtool"
