#!/usr/bin/env bash
# Builds everything and runs the tests. --quick leaves out what takes longer than a minute; --long
# adds the campaigns labelled "long" (the planted bugs of the simulator).
set -euo pipefail
cd "$(dirname "$0")/.."
exclude=long
for argument in "$@"; do
  case "$argument" in
    --quick) exclude="long|slow" ;;
    --long) exclude="" ;;
    *) echo "usage: tests/run.sh [--quick|--long]" >&2; exit 2 ;;
  esac
done

./deploy/install-deps.sh
cmake --preset release
cmake --build --preset release
arguments=(--test-dir build/release --output-on-failure --no-tests=error --timeout 900)
if [ -n "$exclude" ]; then
  echo "tests/run.sh: left out: tests labelled $exclude"
  arguments+=(-LE "$exclude")
fi
ctest "${arguments[@]}"
