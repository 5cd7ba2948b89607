#!/usr/bin/env bash
# Builds everything and runs every test. --quick leaves out what takes longer than a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=0
for argument in "$@"; do
  case "$argument" in
    --quick) quick=1 ;;
    *) echo "usage: tests/run.sh [--quick]" >&2; exit 2 ;;
  esac
done

./deploy/install-deps.sh
cmake --preset release
cmake --build --preset release
arguments=(--test-dir build/release --output-on-failure --no-tests=error --timeout 900)
[ "$quick" = 1 ] && arguments+=(-LE slow)
ctest "${arguments[@]}"
