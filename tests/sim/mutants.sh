#!/usr/bin/env bash
# Plants bugs in copies of the core's sources, one at a time; the simulator must notice each. Prints how
# many seeds each took.      mutants.sh BUILD_DIR
# A bug must be caught by the auditor, or by the liveness that follows the faults: one that the core's
# own RT_CHECK ends proves nothing about the simulator, and does not pass here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build/release}" && pwd)
seeds_max=${RT_MUTANT_SEEDS:-600}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$build"
if ! bin/sim 1 "$seeds_max" >"$work/log" 2>&1; then
  cat "$work/log"
  echo "the core fails without a planted bug: nothing can be said"
  exit 1
fi
link=$(ninja -t commands bin/sim | tail -1)
failed=0

# mutate NAME FILE PERL: the expression must change the file, and the simulator must fail on a seed.
mutate() {
  local source=$root/head/core/$2 copy=$work/$2 compile seed=1 step=25
  cp "$source" "$copy"
  perl -0pi -e "$3" "$copy"
  if cmp -s "$source" "$copy"; then
    echo "$1: the pattern no longer matches $2"
    failed=1
    return
  fi
  compile=$(ninja -t commands "head/core/CMakeFiles/rt_head_core.dir/$2.o" | tail -1 |
    sed "s# -o [^ ]*# -o $work/mutant.o#; s# -MF [^ ]*# -MF $work/mutant.d#; s# -c [^ ]*# -c $copy -w#")
  eval "$compile" >"$work/log" 2>&1 || { cat "$work/log"; failed=1; return; }
  # The mutant's object stands before the archive, so its member is not taken from there.
  eval "${link/-o bin\/sim/$work/mutant.o -o $work/sim}" >"$work/log" 2>&1 || {
    cat "$work/log"; failed=1; return; }
  while [ "$seed" -le "$seeds_max" ]; do
    if ! timeout 120 "$work/sim" "$seed" "$step" 1 >"$work/log" 2>&1; then
      local said
      said=$(grep -o 'seed [0-9]*.*' "$work/log" | head -1 | cut -c1-100)
      printf '%-48s %s\n' "$1" "$said"
      case "$said" in *aborted* | "") echo "  but not by the auditor"; failed=1 ;; esac
      return
    fi
    seed=$((seed + step))
  done
  echo "$1: SURVIVED $seeds_max seeds"
  failed=1
}

mutate "an exit that nobody saw counts as a failure" attempts.cc \
  's/observed\.witnessed \? AttemptOutcome::kFailed : AttemptOutcome::kLost/AttemptOutcome::kFailed/'
mutate "an attempt ends before its reports are in" attempts.cc \
  's/live\.accepted\[observed\.fence\.rank\] < observed\.last_seq/false/'
mutate "leases never run out" nodes.cc 's/deadlines\.begin\(\)->first <= draft\.now/false/'
mutate "what a node no longer knows is not missed" nodes.cc 's/\n  LoseMissing\(draft, sync\);//'
mutate "rows after a stop are kept" reports.cc 's/if \(stopping\) continue;//'
mutate "a row is taken twice" reports.cc \
  's/row\.seq != settled \+ 1/false/; s/row\.seq <= settled/row.seq < settled/'
mutate "early stopping forgets to stop" reports.cc 's/bool stops = values/bool stops = false && values/'
mutate "an attempt resumes from the oldest checkpoint" placement.cc \
  's/runs\.checkpoints\.back\(\)\.id/runs.checkpoints.front().id/'
mutate "a gpu has two holders" placement.cc 's/if \(!used\.contains\(gpu\.index\)\)/if (used.size() < 99)/'
mutate "max_t is one step late" reports.cc 's/\*t >= asha\.max_t/*t > asha.max_t/'
mutate "a request key is forgotten" experiments.cc \
  's/known != state\.requests\.end\(\)/false/'
mutate "a trial is asked to stop twice" trials.cc \
  's/ \|\| trial\.stop_cause != StopCause::kNone\) return;/) return;/'
mutate "one failure too few is allowed" trials.cc 's/trial\.runs\.failures >/trial.runs.failures >=/'
mutate "the newest checkpoint may be retired" checkpoints.cc \
  's/all\.end\(\) - 1/all.end()/; s/a\.id < b\.id/a.id > b.id/g'
exit $failed
