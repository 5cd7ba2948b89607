#!/usr/bin/env bash
# Plants the bugs of tests/sim/planted in copies of the cores' sources, one at a time; the simulator
# must notice each. Prints which seed noticed it.
#   mutants.sh [BUILD_DIR [NAME…]]             all of them, or those whose file name contains NAME
#   mutants.sh --record [BUILD_DIR [NAME…]]    the same; writes new seeds into the patches
#   mutants.sh --share N [BUILD_DIR]           every Nth of them, beginning with one that the number of
#                                              commits chooses: N commits in a row try all of them
#   mutants.sh --apply      only whether each patch applies, and has its row in docs/simulator.md
#   mutants.sh --refresh    rewrites those that apply at another place now, and the table
# A bug is a patch of one file. Its first line says what is wrong, its second one which seed noticed
# it last: that seed is tried first; "seed cloud 17" is one of the mode of the cloud. The bug must be caught by the auditor, or by what follows the
# faults (everything ends, nothing is left): one that the core's own RT_CHECK ends proves nothing
# about the simulator, and does not pass. The seed must be legal without the bug.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mode=run
record=
share=1
case "${1:-}" in
  --apply | --refresh) mode=${1#--}; shift ;;
  --record) record=1; shift ;;
  --share) share=${RT_MUTANT_SHARE:-$2}; shift 2 ;;
esac
build=${1:-$root/build/release}
if [ $# -gt 0 ]; then shift; fi
seeds_max=${RT_MUTANT_SEEDS:-2000}
jobs_max=${RT_MUTANT_JOBS:-2}
page=$root/docs/simulator.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

title_of() { sed -n 1p "$1"; }
seed_of() { sed -n '2s/^seed //p' "$1"; }
source_of() { sed -n 's#^+++ b/##p' "$1"; }

# plant PATCH AT: leaves the changed source in AT and sets `source` to its path in the tree.
plant() {
  local fuzz=0
  if [ "$mode" = refresh ]; then fuzz=2; fi
  source=$(source_of "$1")
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

# The rows of the table in docs/simulator.md: one for each patch, by source and name.
rows() {
  local bug
  for bug in "$root"/tests/sim/planted/*.patch "$root"/tests/sim/planted/rare/*.patch; do
    [ -e "$bug" ] || continue
    printf '| %s | %s | %s |\n' "$(source_of "$bug")" "$(title_of "$bug")" "$(seed_of "$bug")"
  done | LC_ALL=C sort
}

table_in_page() { sed -n '/^| in | planted bug | seed |$/,/^$/p' "$page" | sed -n '3,${/^|/p}'; }

write_table() {
  rows >"$work/rows"
  awk -v rows="$work/rows" '
    in_table && !/^\|/ { in_table = 0 }
    in_table { next }
    { print }
    /^\| in \| planted bug \| seed \|$/ {
      getline; print
      while ((getline line < rows) > 0) print line
      in_table = 1
    }' "$page" >"$work/page"
  cmp -s "$work/page" "$page" || { cp "$work/page" "$page"; echo "wrote the table of $page"; }
}

# The header of all headers of the sources that are changed, precompiled: to read them takes most of
# a compiler's time.
precompile() {
  local bug command
  for bug in "${bugs[@]}"; do echo "$root/$(source_of "$bug")"; done | sort -u |
    xargs grep -h '^#include' | sort -u >"$work/all.h"
  command=$(compile_of "$(source_of "${bugs[0]}")" "$work/all.h" "$work/all.h.gch" "")
  # shellcheck disable=SC2001
  eval "$(sed 's# -c # -x c++-header -c #' <<<"$command")" >"$work/log" 2>&1 || {
    cat "$work/log"
    echo "the headers of the planted sources cannot be precompiled"
    exit 1
  }
}

object_of() {
  local folder name
  folder=$(dirname "$1")
  name=$(basename "$1")
  sed -n "s#^\($folder/CMakeFiles/[^/:]*\.dir/$name\.o\):.*#\1#p" "$work/targets" | head -1
}

# compile_of SOURCE FILE OBJECT: how the build compiles SOURCE, but FILE into OBJECT and not
# optimised. Nothing is kept in a cache: the result is used once.
compile_of() {
  ninja -t commands "$(object_of "$1")" | tail -1 | sed "s#^.*ccache ##; s# -O[0-3]\b# -O0#g
    s# -g1 # -g0 #; s# -include [^ ]*# $4#; s# -o [^ ]*# -o $3#; s# -MF [^ ]*# -MF $3.d#
    s# -c [^ ]*# -c $2 -w#"
}

# notices WORLD SIMULATOR SEED COUNT LOG: whether it ends at a seed that is not legal. WORLD is
# "cloud", or empty.
# The bound is of processor time: beside other tests little of it is left for this one.
notices() { ! (ulimit -t 300; exec "$2" ${1:+"--$1"} "$3" "$4" 1) >"$5" 2>&1; }

# try PATCH AT: prints one line.
try() {
  local at=$2 name source object said seed world=
  name=$(title_of "$1")
  seed=$(seed_of "$1")
  if [[ "$seed" == cloud* ]]; then
    world=cloud
    seed=${seed#cloud}
    seed=${seed# }
  fi
  plant "$1" "$at" || return 1
  object=$(object_of "$source")
  # The mutant's object stands in for its own, or before the archive, so that its member is not
  # taken from there.
  local replaced=${link/ $object / $at/mutant.o }
  if [ "$replaced" = "$link" ]; then replaced=${link/-o bin\/sim/$at/mutant.o -o bin\/sim}; fi
  # Names of the models are those of the core as well.
  local headers="-include $work/all.h"
  if [[ "$source" == common/search/* ]]; then headers=; fi
  if ! eval "$(compile_of "$source" "$at/$source" "$at/mutant.o" "$headers")" \
    >"$at/log" 2>&1 || ! eval "${replaced/-o bin\/sim/-o $at/sim}" >"$at/log" 2>&1; then
    cat "$at/log"
    echo "$name: does not build"
    return 1
  fi
  if [ -z "$seed" ] || ! notices "$world" "$at/sim" "$seed" 1 "$at/log"; then
    if ! notices "$world" "$at/sim" 1 "$seeds_max" "$at/log"; then
      echo "$name: SURVIVED $seeds_max seeds"
      return 1
    fi
  fi
  said=$(grep -o -m 1 'seed [0-9]*.*' "$at/log" | cut -c1-120) || said=
  printf '%-50s %s\n' "$name" "$said"
  case "$said" in *aborted* | "") echo "  but not by the auditor"; return 1 ;; esac
  local found
  found=$(sed 's/^seed \([0-9]*\).*/\1/' <<<"$said")
  if notices "$world" bin/sim "$found" 1 "$at/log"; then
    cat "$at/log"
    echo "  but the cores fail at seed $found without it as well: nothing can be said"
    return 1
  fi
  if [ "$found" != "$seed" ]; then
    echo "  not by seed ${seed:-?}: mutants.sh --record writes the new one down"
    if [ -n "$record" ]; then sed -i "2s/.*/seed ${world:+$world }$found/" "$1"; fi
  fi
  rm -rf "$at"
}

bugs=()
count=0
failed=0
# Those in planted/rare are tried when they are named, or with RT_MUTANT_RARE=1.
rare=("$root"/tests/sim/planted/rare/*.patch)
if [ ! -e "${rare[0]}" ]; then rare=(); fi
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
  ninja -t targets all >"$work/targets"
  link=$(ninja -t commands bin/sim | tail -1)
  precompile
fi
if [ "$share" -gt 1 ]; then
  first=$(($(git -C "$root" rev-list --count HEAD) % share))
  all=("${bugs[@]}")
  bugs=()
  for ((i = first; i < ${#all[@]}; i += share)); do bugs+=("${all[i]}"); done
  echo "${#bugs[@]} of ${#all[@]} planted bugs"
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
if [ "$mode" = apply ] && ! diff <(table_in_page) <(rows) >"$work/log"; then
  cat "$work/log"
  echo "the table of docs/simulator.md (<) has other rows than tests/sim/planted (>):" \
    "tests/sim/mutants.sh --refresh writes it"
  failed=1
fi
if [ "$mode" = refresh ] || [ -n "$record" ]; then write_table; fi
echo "$count planted bugs"
exit $failed
