#!/usr/bin/env bash
# Plants the bugs of tests/sim/planted in copies of the cores' sources, one at a time; the simulator
# must notice each. Prints how many seeds each took.
#   mutants.sh [BUILD_DIR [NAME…]]    all of them, or those whose file name contains NAME
#   mutants.sh --apply                only whether each patch still applies
#   mutants.sh --refresh              rewrites those that apply at another place now
# A bug is a patch of one file; its first line says what is wrong. It must be caught by the auditor,
# or by what follows the faults (everything ends, nothing is left): one that the core's own RT_CHECK
# ends proves nothing about the simulator, and does not pass. docs/simulator.md has the table.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mode=run
case "${1:-}" in
  --apply | --refresh) mode=${1#--}; shift ;;
esac
build=${1:-$root/build/release}
if [ $# -gt 0 ]; then shift; fi
seeds_max=${RT_MUTANT_SEEDS:-2000}
jobs_max=${RT_MUTANT_JOBS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# plant PATCH AT: leaves the changed source in AT and sets `source` to its path in the tree.
plant() {
  local fuzz=0
  if [ "$mode" = refresh ]; then fuzz=2; fi
  source=$(sed -n 's#^+++ b/##p' "$1")
  mkdir -p "$2/$(dirname "$source")"
  cp "$root/$source" "$2/$source"
  if ! patch --batch --silent --force --fuzz="$fuzz" --no-backup-if-mismatch -r - -d "$2" -p1 \
    <"$1" >"$2/log" 2>&1; then
    echo "${1##*/} no longer applies to $source: see docs/simulator.md, \"Planted bugs\""
    return 1
  fi
}

refresh() {
  local at=$work/refresh source
  plant "$1" "$at" || return 1
  { sed -n '1,2p' "$1"
    diff -U2 --label "a/$source" --label "b/$source" "$root/$source" "$at/$source" || true
  } >"$at/new"
  cmp -s "$at/new" "$1" || { cp "$at/new" "$1"; echo "refreshed ${1##*/}"; }
}

# try PATCH AT: prints one line.
try() {
  local at=$2 name source object compile said
  name=$(head -1 "$1")
  plant "$1" "$at" || return 1
  object=$(dirname "$source")/CMakeFiles/$(library "$source").dir/$(basename "$source").o
  # Compiling takes most of the time: the changed file alone is not optimised.
  compile=$(ninja -t commands "$object" | tail -1 | sed "s# -O[23] # -O0 #; s# -g1 # -g0 #
    s# -o [^ ]*# -o $at/mutant.o#; s# -MF [^ ]*# -MF $at/mutant.d#; s# -c [^ ]*# -c $at/$source -w#")
  # The mutant's object stands before the archive, so its member is not taken from there.
  if ! eval "$compile" >"$at/log" 2>&1 ||
    ! eval "${link/-o bin\/sim/$at/mutant.o -o $at/sim}" >"$at/log" 2>&1; then
    cat "$at/log"
    echo "$name: does not build"
    return 1
  fi
  if timeout 300 "$at/sim" 1 "$seeds_max" 1 >"$at/log" 2>&1; then
    echo "$name: SURVIVED $seeds_max seeds"
    return 1
  fi
  said=$(grep -o -m 1 'seed [0-9]*.*' "$at/log" | cut -c1-120) || said=
  printf '%-50s %s\n' "$name" "$said"
  case "$said" in *aborted* | "") echo "  but not by the auditor"; return 1 ;; esac
}

# The library that the folder's sources are compiled into.
library() {
  local folder
  folder=$(dirname "$1")
  folder=${folder#common/}
  echo "rt_${folder//\//_}"
}

bugs=()
count=0
failed=0
# Those in planted/rare are tried when they are named, or with RT_MUTANT_RARE=1.
rare=("$root"/tests/sim/planted/rare/*.patch)
if [ "$mode" = run ] && [ $# -eq 0 ] && [ -z "${RT_MUTANT_RARE:-}" ]; then rare=(); fi
for bug in "$root"/tests/sim/planted/*.patch "${rare[@]}"; do
  for wanted in "${@:-}"; do
    [[ "${bug##*/}" == *"$wanted"* ]] || continue
    bugs+=("$bug")
    break
  done
done
[ "${#bugs[@]}" -gt 0 ] || { echo "no planted bug is called $*" >&2; exit 1; }

if [ "$mode" = run ]; then
  cd "$build"
  if ! bin/sim 1 "$seeds_max" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "the cores fail without a planted bug: nothing can be said"
    exit 1
  fi
  link=$(ninja -t commands bin/sim | tail -1)
fi
for bug in "${bugs[@]}"; do
  count=$((count + 1))
  case "$mode" in
    apply) plant "$bug" "$work/$count" || failed=1; rm -rf "${work:?}/$count" ;;
    refresh) refresh "$bug" || failed=1 ;;
    run)
      if [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; then wait -n || failed=1; fi
      try "$bug" "$work/$count" & ;;
  esac
done
for pid in $(jobs -p); do wait "$pid" || failed=1; done
echo "$count planted bugs"
exit $failed
