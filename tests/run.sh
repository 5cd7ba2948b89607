#!/usr/bin/env bash
# Builds everything and runs the tests, those of the sanitizer builds included; the last lines are
# ctest's summary. --quick leaves out the sanitizers and what takes longer than a minute.
# A test that was skipped and is not in tests/skipped.txt is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
quick=
case "${1:-}" in
  "") ;;
  --quick) quick=1 ;;
  *) echo "usage: tests/run.sh [--quick]" >&2; exit 2 ;;
esac
step() { printf '== %s (at %d s)\n' "$*" "$SECONDS"; }

step "packages"
./deploy/install-deps.sh
if [ -z "$quick" ]; then
  for preset in dev tsan fuzz; do
    step "build with sanitizers: $preset"
    cmake --preset "$preset" >/dev/null
    target=rt_sanitized
    if [ "$preset" = fuzz ]; then target=rt_fuzz; fi
    cmake --build --preset "$preset" --target "$target"
  done
fi
step "build"
cmake --preset release -DRT_SANITIZED_TESTS="$([ -n "$quick" ] && echo OFF || echo ON)"
cmake --build --preset release

step "tests"
log=build/release/ctest.log
rm -f build/pytest.xml
# Most tests wait for daemons most of the time: two for each processor. Those that need the machine
# for themselves say so (RUN_SERIAL).
arguments=(--test-dir build/release --output-on-failure --no-tests=error --timeout 900
  --parallel "$((2 * $(nproc)))"
  --output-junit "$PWD/build/release/ctest.xml" --test-output-size-passed 4000000)
if [ -n "$quick" ]; then
  echo "left out: the sanitizers and what is labelled slow"
  arguments+=(-LE slow)
fi
status=0
ctest "${arguments[@]}" | tee "$log" || status=$?
said=$(python3 tests/skips.py build/release/ctest.xml build/pytest.xml 2>&1) || status=1
if [ -n "$said" ]; then
  echo "$said"
  sed -n '/tests passed/,$p' "$log"  # The summary stands last in any case.
fi
exit "$status"
