#!/usr/bin/env bash
# Builds everything and runs the tests; the last lines are ctest's summary.
#   tests/run.sh [--quick] [--stage STAGE]…
# Stages: lint, unit, sim, integration, sanitizers, python; all of them by default. `lint` needs no
# build, runs first, and ends the run if it fails. --quick leaves out the sanitizers and the tests
# that take longer than a minute. A test that was skipped and is not in tests/skipped.txt is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
all=(lint unit sim integration sanitizers python)
usage() {
  echo "usage: tests/run.sh [--quick] [--stage STAGE]…   STAGE is one of: ${all[*]}" >&2
  exit 2
}
quick=
stages=()
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=1; shift ;;
    --stage)
      [[ " ${all[*]} " == *" ${2:-none} "* ]] || usage
      stages+=("$2")
      shift 2 ;;
    *) usage ;;
  esac
done
[ "${#stages[@]}" -gt 0 ] || stages=("${all[@]}")
wants() { [[ " ${stages[*]} " == *" $1 "* ]]; }
sanitizers=
if wants sanitizers && [ -z "$quick" ]; then sanitizers=1; fi

free_gib() { df --output=avail -BG . | tail -1 | tr -dc 0-9; }
step() { printf '== %s (at %d s, %d GiB free)\n' "$*" "$SECONDS" "$(free_gib)"; }
# run_tests JUNIT ARGUMENTS…: most tests wait for daemons most of the time, so three for each processor
# run side by side. Those that need the machine for themselves say so (RUN_SERIAL).
run_tests() {
  local junit=$PWD/build/release/$1
  shift
  ctest --test-dir build/release --output-on-failure --no-tests=error --timeout 900 \
    --parallel "$((3 * $(nproc)))" --output-junit "$junit" --test-output-size-passed 4000000 "$@"
}

step "packages"
./deploy/install-deps.sh
cmake --preset release -DRT_SANITIZED_TESTS="$([ -n "$sanitizers" ] && echo ON || echo OFF)" >/dev/null

if wants lint; then
  step "lint"
  run_tests lint.xml -L '^lint$'
  [ "${stages[*]}" != lint ] || exit 0
fi

# Packages for the tests come while the processors build. The test python_venv waits for it, and
# says what failed.
if wants integration || wants python || wants unit; then
  mkdir -p build
  tests/python/venv.sh >build/venv.log 2>&1 &
fi
build_began=$SECONDS
step "build"
cmake --build --preset release
if [ -n "$sanitizers" ]; then
  for preset in dev tsan; do
    step "build with sanitizers: $preset"
    cmake --preset "$preset" -DRT_RELEASED="$PWD/build/release" >/dev/null
    cmake --build --preset "$preset" --target rt_sanitized
  done
fi
# A process that imports the package takes half as long where its bytecode is at hand, and thousands
# of the tests' processes do; what most tests import is compiled once as well. None of them leaves it
# where PYTHONDONTWRITEBYTECODE is set.
python3 -m compileall -q python/rt tests/integration tests/chaos

step "tests"
# A head keeps some of its disk free (limits::kFreeBytesMax) and takes no checkpoint that it has no
# room for: half of the tests would fail of that.
if [ "$(free_gib)" -lt 4 ]; then
  echo "error: the disk has $(free_gib) GiB free, and the tests need 4: make room at $PWD and /tmp" >&2
  exit 1
fi
tests_began=$SECONDS
log=build/release/ctest.log
rm -f build/pytest.xml
labels=()
for stage in "${stages[@]}"; do
  if [ "$stage" != lint ]; then labels+=("$stage"); fi
done
arguments=(-L "^($(IFS='|'; echo "${labels[*]}"))\$")
if [ -n "$quick" ]; then
  echo "left out: the sanitizers and what is labelled slow"
  arguments+=(-LE '^(slow|sanitizers)$')
fi
# Tests that only compute start now, in the order of tests/CMakeLists.txt: the longest first.
mapfile -t beside < <(ctest --test-dir build/release -N "${arguments[@]}" |
  sed -n 's/^ *Test *#[0-9]*: //p' | while read -r name; do
    if [ -e "build/release/beside/$name.json" ]; then echo "$name"; fi
  done)
if [ "${#beside[@]}" -gt 0 ]; then
  coproc python3 tests/beside.py start build/release/beside "${beside[@]}"
  read -r RT_BESIDE <&"${COPROC[0]}"
  export RT_BESIDE
fi
status=0
run_tests ctest.xml "${arguments[@]}" | tee "$log" || status=$?
printf '== build %d s, tests %d s\n' "$((tests_began - build_began))" "$((SECONDS - tests_began))"
python3 tests/slowest.py build/release/ctest.xml
said=$(python3 tests/skips.py build/release/ctest.xml build/pytest.xml 2>&1) || status=1
if [ -n "$said" ]; then echo "$said"; fi
python3 tests/failed.py build/release/ctest.xml
sed -n '/tests passed/,$p' "$log"  # The summary is last.
exit "$status"
