#!/usr/bin/env bash
# Plants bugs in copies of the cores' sources, one at a time; the simulator must notice each. Prints
# how many seeds each took.      mutants.sh BUILD_DIR
# A bug must be caught by the auditor, or by what follows the faults (everything ends, nothing is
# left): one that the core's own RT_CHECK ends proves nothing about the simulator, and does not
# pass. docs/simulator.md has the table.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
patterns=
if [ "${1:-}" = --patterns ]; then patterns=1; shift; fi
build=${1:-$root/build/release}
seeds_max=${RT_MUTANT_SEEDS:-2000}
jobs_max=${RT_MUTANT_JOBS:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$patterns" ]; then
  cd "$build"
  if ! bin/sim 1 "$seeds_max" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "the cores fail without a planted bug: nothing can be said"
    exit 1
  fi
  link=$(ninja -t commands bin/sim | tail -1)
fi

# plant WORK FOLDER FILE NAME PERL: the expression must change the file, and the simulator must fail
# on a seed. Prints one line.
plant() {
  local at=$1 folder=$2 file=$3 name=$4 change=$5 compile said
  local source=$root/$folder/$file copy=$at/$file library=${folder/\//_}
  mkdir -p "$at"
  cp "$source" "$copy"
  perl -0pi -e "$change" "$copy"
  if cmp -s "$source" "$copy"; then
    echo "$name: the pattern no longer matches $folder/$file"
    return 1
  fi
  if [ -n "$patterns" ]; then return; fi
  compile=$(ninja -t commands "$folder/CMakeFiles/rt_${library#common_}.dir/$file.o" | tail -1 |
    sed "s# -o [^ ]*# -o $at/mutant.o#; s# -MF [^ ]*# -MF $at/mutant.d#; s# -c [^ ]*# -c $copy -w#")
  # The mutant's object stands before the archive, so its member is not taken from there.
  if ! eval "$compile" >"$at/log" 2>&1 ||
    ! eval "${link/-o bin\/sim/$at/mutant.o -o $at/sim}" >"$at/log" 2>&1; then
    cat "$at/log"
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

count=0
failed=0
# mutate FOLDER FILE NAME PERL: plants it beside what is being tried already.
mutate() {
  if [ "$(jobs -rp | wc -l)" -ge "$jobs_max" ]; then wait -n || failed=1; fi
  count=$((count + 1))
  plant "$work/$count" "$@" &
}
head_core() { mutate head/core "$@"; }
worker_core() { mutate worker/core worker_core.cc "$@"; }

head_core attempts.cc "an exit that nobody saw counts as a failure" \
  's/observed\.witnessed \? (AttemptOutcome::kFailed) : AttemptOutcome::kLost/$1/'
head_core attempts.cc "an attempt ends before its reports are in" \
  's/live\.accepted\[observed\.fence\.rank\] < observed\.last_seq/false/'
head_core attempts.cc "an attempt ends with its first rank" \
  's/rank < ranks; \+\+rank\)/rank < ranks \/ ranks; ++rank)/'
head_core attempts.cc "a rank that was asked to end counts as failed" \
  's/if \(live\.FirstFailure\(\) != nullptr\) exit\.outcome/if (false) exit.outcome/'
head_core desired.cc "a rank that failed leaves the others running" \
  's/stop \|\| live\.FirstFailure\(\) != nullptr/stop/'
head_core state.cc "a rank starts before it is agreed where to meet" \
  's/if \(rank > 0 && port == 0\) return false;//'
head_core places.cc "a gang goes without its last bundle" \
  's/  TakeCapacity\(capacities, wanted, members\);\n/  members.pop_back();\n/'
mutate common/spec packing.cc "STRICT_SPREAD shares a node" 's/Spread\(capacities, 0\)/Spread(capacities, 9)/'
mutate common/spec packing.cc "STRICT_PACK takes several nodes" 's/return FillOne\(capacities\)/return Pack(capacities)/'
head_core nodes.cc "leases never run out" 's/deadlines\.begin\(\)->first <= draft\.now/false/'
head_core nodes.cc "a node that is away is given work" \
  's/ \|\| IsAway\(core\.world\.state, id\)\) return false;/) return false;/'
head_core nodes.cc "a node that is away is lost as any other" \
  's/  SetDeadline\(draft\.soft\(\), node\.id, std::max[^;]*;\n//; s/  if \(IsAway\(draft\.state\(\), input\.node\)\) return;\n//'
head_core nodes.cc "a head that starts forgets who is away" \
  's/std::max\(node\.away_until, draft\.now \+ limits::kRestartGrace\)/draft.now + limits::kRestartGrace/'
head_core nodes.cc "a node that is not lost is forgotten" 's/if \(!node\.lost\) \{/if (false) {/'
head_core nodes.cc "a daemon with a successor is believed" \
  's/sync\.inventory\.incarnation < KnownIncarnation\(draft\.state\(\), node\)/false/'
head_core history.cc "who has heard nothing before is taken for another head's" \
  's/  soft\.unheard\.erase/  if (sync.seen_epoch != 0) soft.unheard.erase/'
head_core nodes.cc "what a node no longer knows is not missed" 's/\n  if \(is_new_daemon\) LoseMissing\(draft, sync\);//'
head_core nodes.cc "a late Sync of a daemon loses what it started" \
  's/if \(is_new_daemon\) LoseMissing/LoseMissing/'
head_core reports.cc "rows after a stop are kept" 's/if \(stopping\) continue;//'
head_core reports.cc "a row is taken twice" \
  's/row\.seq != settled \+ 1/false/; s/row\.seq <= settled/row.seq < settled/'
head_core reports.cc "early stopping forgets to stop" \
  's/bool stops = values/bool stops = false && values/'
head_core reports.cc "max_t is one step late" 's/\*t >= asha\.max_t/*t > asha.max_t/'
head_core placement.cc "an attempt resumes from the oldest checkpoint" \
  's/runs\.checkpoints\.back\(\)\.id/runs.checkpoints.front().id/'
head_core devices.cc "a gpu has two holders" \
  's/std::max<int64_t>\(0, capacity - in_use\)/std::max<int64_t>(0, capacity - 0 * in_use)/'
mutate common/spec packing.cc "a share is taken from a device without capacity" \
  's/if \(device\.units < units\) continue;/if (device.units == 0) continue;/'
head_core devices.cc "a gpu with a fault is given work" \
  's/gpu\.fault\.empty\(\) && left > 0/true/'
head_core experiments.cc "a request key is forgotten" 's/known != nullptr/false/'
head_core experiments.cc "a job that is being stopped starts more" \
  's/job->second\.stop_requested/false/'
head_core experiments.cc "the time budget is forgotten" 's/draft\.now >= experiment\.started_at[^)]*/false/'
head_core jobs.cc "a lost driver is not launched again" \
  's/job\.runs\.losses_in_row > limits::kInfraLossesMax/true/'
head_core jobs.cc "who stops a job leaves its experiments" \
  's/StopExperiment\(draft, id, StopCause::kUser, [^;]*;/(void)id;/'
head_core experiments.cc "a paused search proposes" \
  's/experiment\.is_searching\(\)/(experiment.is_searching() || experiment.paused)/'
head_core experiments.cc "a search that its budget ended is COMPLETED" \
  's/if \(!search\.over\) search\.end = ExperimentEnd::kStopped;//'
head_core suspend.cc "a retry opens the whole search" 's/\/\*retries_only=\*\/true/false/'
head_core apply.cc "a retry forgets that the search is over" \
  's/experiment\.search = \{true, [^}]*\};/ResumeBudget(experiment);/'
head_core experiments.cc "a search that is over proposes" \
  's/if \(!experiment\.is_searching\(\)\) return;/if (!experiment.is_searching() \&\& !experiment.search.over) return;/'
head_core suspend.cc "trials are added while retried ones run" \
  's/if \(!experiment\.search\.over \|\| experiment\.finishing\)/if (true)/'
head_core apply.cc "a retry forgets what ended the search" \
  's/experiment\.search = \{true, experiment\.stop_cause/experiment.search = {true, StopCause::kNone/'
head_core reports.cc "a row without the metric is accepted" 's/!spec\.strict_metric/true/'
head_core reports.cc "the key of a stop rule is not noted" 's/if \(IsCounter\(key\) \|\|/if (true ||/'
head_core trials.cc "who leaves the metric out is STOPPED" \
  's/end\(TrialEnd::kFailed, trial\.stop_reason/end(TrialEnd::kStopped, trial.stop_reason/'
head_core experiments.cc "the time budget of a paused search runs" \
  's/ \+ experiment\.budget_paused_total \+ budget/ + budget/'
head_core attempts.cc "a trial that was suspended has failed" \
  's/if \(WasSuspended\(live, observed\)\) return AttemptOutcome::kSuspended;/(void)WasSuspended;/'
head_core nodes.cc "a false alarm never ends" 's/if \(node\.draining\) EmitAndTell/if (false) EmitAndTell/'
head_core nodes.cc "a drain by hand ends with the node's next Sync" \
  's/if \(node\.drained_by_hand\) return;//'
head_core nodes.cc "the deadline of a drain by hand is forgotten" \
  's/node\.drain_until > 0 && node\.drain_until <= draft\.now/false/'
head_core attempts.cc "an evicted trial has failed" \
  's/if \(WasPreempted\(live, observed\)\) return AttemptOutcome::kPreempted;/(void)WasPreempted;/'
head_core attempts.cc "a failure where a node drains is none" \
  's/\(observed\.suspended \|\| EndedByTerm\(observed\)\);\n\}\n\nAtt/true;\n}\n\nAtt/'
head_core apply.cc "a node that was drained by hand comes back whole" \
  's/node\.draining = node\.drained_by_hand;/node.draining = false;/'
worker_core "a trial that never saves is ended by a notice" \
  's/attempt\.announced = true;/attempt.announced = true; attempt.evicting = true;/'
worker_core "a checkpoint from before the notice is enough" \
  's/attempt->evicting \|\| attempt->announced/true/'
head_core priorities.cc "a trial of the same priority is preempted" \
  's/one\.priority < priority;/one.priority <= priority;/'
head_core priorities.cc "a preempted trial is asked again" \
  's/return live\.suspending \|\| /return /'
head_core priorities.cc "the wrong trials are preempted" \
  's/partition_point\(runners_\.begin\(\), runners_\.end\(\), \[&\]\(const Runner& one\) \{\n    return one\.priority < priority;/partition_point(runners_.begin(), runners_.end(), [&](const Runner&) {\n    return priority > -9999;/'
head_core index.cc "the queue forgets priorities" \
  's/\.behind = -PriorityOf\(world, owner\)/.behind = 0 * PriorityOf(world, owner)/'
head_core backfill.cc "a backfill that has started is cancelled" \
  's/ \|\| live->was_heard_of\(\)\) return;/) return;/'
head_core backfill.cc "a trial is backfilled behind a suspended one" 's/ \|\| last->suspending//'
worker_core "a backfilled attempt does not wait" 's/return !ended \|\| MustWait[^;]*;/return false;/'
worker_core "what is to be stopped before it was heard of is asked for again" \
  's/item\.has_body && !item\.stop/item.has_body/'
worker_core "an attempt that is being ended shares its capacity" \
  's/!HasStray\(\) && //'
worker_core "an attempt that was asked to save is never ended" 's/attempt\.saved \|\| /false && /'
worker_core "a new daemon forgets whom the last one asked to leave" \
  's/attempt\.evicting = recovered\.evicting;//; s/attempt\.suspend = attempt\.orphaned = recovered\.orphaned;//'
head_core trials.cc "a trial is asked to stop twice" \
  's/ \|\| trial\.stop_cause != StopCause::kNone\) return;/) return;/'
head_core trials.cc "one failure too few is allowed" \
  's/trial\.runs\.failures >/trial.runs.failures >=/'
head_core checkpoints.cc "the newest checkpoint may be retired" \
  's/if \(!all\.empty\(\)\) needed\.insert\(all\.back\(\)\.id\);//; s/a\.id < b\.id/a.id > b.id/g'
head_core checkpoints.cc "the best checkpoint is retired first" \
  's/WorseThan\(\*a, \*b, policy\)/WorseThan(*b, *a, policy)/'
head_core checkpoints.cc "what a rank that is late has to fetch is retired" \
  's/  needed\.insert\(FetchedFrom\(draft, owner\)\);\n//'
head_core experiments.cc "a driver whose job is over goes on with it" \
  's/job->second\.end != JobEnd::kNone/false/'
head_core desired.cc "a restart begins without its checkpoint" \
  's/launch\.checkpoint = checkpoint\.manifest;//'
head_core step.cc "the head starts at a clock that was set back" \
  's/return std::max\(wall, state\.time\)/(void)state; return wall/'
head_core apply_runs.cc "the best of superseded rows is remembered" \
  's/trial\.has_best = from != nullptr && from->has_best;//'
head_core apply_runs.cc "failures are not counted" 's/runs\.failures \+= failed \? 1 : 0;/(void)failed;/'
head_core apply.cc "a join token works twice" \
  's/(event::TokenUsed& e\) \{ )state\(\)\.tokens\.erase\(e\.token\);/$1(void)e;/'
head_core apply.cc "a rung forgets who was stopped there" \
  's/if \(std::isnan\(e\.value\)\) return;/if (e.stopped || std::isnan(e.value)) return;/'
head_core apply.cc "a budget runs from the creation on" \
  's/if \(experiment\.started_at == 0\) (experiment\.started_at = )at;/$1experiment.created_at;/'
head_core apply.cc "the journal's time is forgotten" 's/world\.state\.time = std::max[^;]*;//'
head_core driver_hooks.cc "a driver that has a successor is heard" \
  's/session == experiment\.drivers\.size\(\)/session <= experiment.drivers.size()/'
head_core driver_hooks.cc "a suggestion is taken for another trial" \
  's/asked\.empty\(\) \|\| asked\.front\(\) != suggestion\.number/asked.empty()/'
head_core driver_hooks.cc "a finished search suggests more" \
  's/ \|\| experiment\.search_finished\) return numbers/) return numbers/'
head_core apply_runs.cc "a row is decided before its driver has answered" \
  's/(attempt\.undecided\.push_back[^;]*;)/$1 attempt.decided_seq = row_seq;/'
head_core checkpoints.cc "a checkpoint of several ranks lacks a shard" \
  's/live\.sharding_ranks\.contains\(rank\)/false/'
head_core checkpoints.cc "ranks that are behind are not waited for" \
  's/live\.accepted\[rank\] < seq \|\| //'
head_core desired.cc "a restart begins without the other ranks' files" \
  's/launch\.checkpoint_shards = checkpoint\.shards;//'
head_core retry_rules.cc "a retry rule takes the log for granted" 's/\(code, logged\)/(code, true)/'
head_core retry_rules.cc "a failure that ends a trial is forgiven" \
  's/rule\.then != RetryAction::kFail/true/'
head_core retry_rules.cc "a node where it hung twice is used again" 's/ended\.excluded = node;\n\}/;\n}/'
head_core placement.cc "an excluded node is used while another is there" \
  's/CouldFit\(others, RequestOf\(world, owner\)\) \?/false ?/'
head_core trials.cc "a trial that hangs is restarted without end" \
  's/trial\.runs\.hangs > static_cast<uint32_t>\(spec\.watchdog\.restarts\)/false/'
head_core breaker.cc "the breaker forgets who did not fail" \
  's/ \|\| index\.completed \+ index\.stopped > 0//'
head_core placement.cc "an attempt resumes from a checkpoint that only lost nodes have" \
  's/\n  RetireUnreachable\(draft, owner\);//'
head_core checkpoints.cc "the newest in the store is retired" \
  's/needed\.insert\(at->id\);/(void)at;/'
head_core checkpoints.cc "a checkpoint that is being uploaded is retired" \
  's/needed\.insert\(\(at - 1\)->id\)/(void)at/'
head_core replicas.cc "only the training node uploads" \
  's/UploaderOf\(draft\.state\(\), checkpoint\) == input\.node/checkpoint.replicas.front() == input.node/'
head_core replicas.cc "an attempt starts from the beginning although it ran before its checkpoint was lost" \
  's/live->accepted\.front\(\) == 0/false/'
head_core replicas.cc "a superseded head releases replicas" \
  's/draft\.Emit\(event::CheckpointReleased[^;]*;/(void)input;/'
head_core checkpoints.cc "a late copy brings back what has gone" \
  's/input\.row\.seq <= live->replicated_seq/false/'
head_core replicas.cc "no node is asked to upload" 's/draft\.out\.answer\.push = true/(void)draft/'
head_core replicas.cc "the report that the store has it is lost" \
  's/draft\.Emit\(event::CheckpointStored\{[^}]*\}\)/(void)draft/'
head_core replicas.cc "a replica is released before its commit comes" \
  's/return input\.row > settled/return input.row > settled + 1/'
head_core replicas.cc "replicas are released at once" 's/draft\.out\.answer\.needed = true;//'
head_core replicas.cc "a lost replica takes the others with it" \
  's/checkpoint\.replicas\.size\(\) == 1/true/'
head_core replicas.cc "a checkpoint whose last replica is lost is kept" \
  's/draft\.Emit\(event::CheckpointRetired\{input[^}]*\}\)/(void)draft/'
head_core checkpoints.cc "lost nodes are counted on" \
  's/CountingOf\(draft\.state\(\), input\.replicas\)/input.replicas/'
head_core checkpoints.cc "a checkpoint with replicas counts as stored" \
  's/,\n *\.replicas = std::move\(nodes\)//'
head_core state.cc "a lost node is to upload" \
  's/left = CountingOf\([^)]*\)/left = checkpoint.replicas/'
head_core apply.cc "a lost replica is still counted" \
  's/if \(std::erase\(CheckpointOf[^;]*;/(void)e;/'
head_core apply_runs.cc "the state forgets the replicas" \
  's/checkpoint\.replicas = e\.replicas;//; s/CountReplicas\(world, e\.replicas, 1\);//'
head_core desired.cc "a worker looks in the store for a checkpoint with replicas only" \
  's/launch\.checkpoint_on_replicas = !checkpoint\.is_stored\(\);//'
head_core desired.cc "several ranks leave their checkpoints on nodes" \
  's/if \(launch\.world_size == 1\) launch\.durable_after/launch.durable_after/'
head_core replicas.cc "what became stored retires nothing" \
  's/if \(input\.status != ReplicaStatus::kNone && is_known\) RetireByPolicy\([^;]*;/(void)is_known;/'
head_core replicas.cc "only the newest lost checkpoint is retired" \
  's/while \(!runs\.check/if (!runs.check/'
head_core outputs.cc "the outputs of a running attempt are kept" \
  's/  if \(attempt->ended_at == 0 && [^;]*;\n//'
head_core outputs.cc "the outputs of a later attempt are replaced" \
  's/runs->outputs\.front\(\)\.attempt > id\.number/false/'
head_core outputs.cc "outputs that are kept are recorded again" 's/!IsKnown\([^)]*\)/true/'
head_core outputs.cc "any node may name outputs" \
  's/ \|\| !RanOn\(\*attempt, input\.fence\.rank, input\.node\)\)/)/'
head_core outputs.cc "a node may name the outputs of another rank" \
  's/return member\.rank == rank && member\.node == node/return member.node == node/'
head_core outputs.cc "outputs that were accepted are not recorded" \
  's/draft\.Emit\(event::OutputsKept[^;]*;/(void)input;/'
head_core apply_runs.cc "a gang keeps the outputs of one rank" \
  's/known\.attempt != e\.attempt\.number \|\| known\.rank == e\.rank/true/'
worker_core "a daemon launches again what it finds running" \
  's/state_\.attempts\.emplace\(recovered\.fence, [^;]*;//'
worker_core "an exit file is ignored" \
  's/recovered\.exit \? Stage::kDraining : Stage::kRunning/Stage::kRunning/'
worker_core "SIGKILL never comes" 's/actions_\.push_back\(action::Signal\{fence, true[^}]*\}\);//g'
worker_core "a living program is forgotten" \
  's/const bool ended = [^;]*;/const bool ended = attempt.stage != Stage::kPreparing;/'
worker_core "what may succeed later is given up" 's/prepared\.transient\)/false)/'
worker_core "the last rows of a program are not waited for" \
  's/attempt->last_seq = drained\.last_seq;//'

for pid in $(jobs -p); do wait "$pid" || failed=1; done
echo "$count planted bugs"
exit $failed
