#include "head/core/apply_runs.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "head/core/apply_freeze.h"
#include "head/core/apply_resize.h"
#include "head/core/core.h"
#include "head/core/index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

// Past attempts kept per owner, so that a trial that is restarted without end stays small.
constexpr size_t kAttemptsKept = 64;
// Marks kept per attempt: a trial waits after each row, so there is one, unless it cannot wait.
constexpr size_t kMarksMax = 64;

bool AwaitsDecision(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  return experiment != nullptr && experiment->spec.driver.schedules;
}

void NoteUndecided(Attempt& attempt, uint64_t event_seq, uint64_t row_seq) {
  if (attempt.undecided.size() >= kMarksMax) attempt.undecided.pop_back();
  attempt.undecided.push_back({event_seq, row_seq});
}

// Keeps the newest: the other shards of older ones never came.
void DropOldShards(Attempt& live) {
  std::set<uint64_t> rows;
  for (const CheckpointShard& shard : live.shards) rows.insert(shard.seq);
  while (rows.size() > limits::kCheckpointRowsMax) {
    std::erase_if(live.shards, [&](const CheckpointShard& p) { return p.seq == *rows.begin(); });
    rows.erase(rows.begin());
  }
}

}  // namespace

Attempt NewAttempt(const AttemptId& id, std::vector<Member> members, uint64_t checkpoint,
                   Millis at) {
  Attempt attempt;
  attempt.number = id.number;
  attempt.generation = id.generation;
  attempt.members = std::move(members);
  attempt.checkpoint = checkpoint;
  attempt.placed_at = at;
  attempt.pids.assign(attempt.members.size(), 0);
  attempt.accepted.assign(attempt.members.size(), 0);
  return attempt;
}

void AddAttempt(Runs& runs, Attempt attempt) {
  runs.attempts.push_back(std::move(attempt));
  if (runs.attempts.size() > kAttemptsKept) runs.attempts.erase(runs.attempts.begin());
}

void CloseAttempt(Attempt& live, AttemptOutcome outcome, Millis at) {
  live.ended_at = at;
  live.outcome = outcome;
  live.checkpoint_rows.clear();
  live.shards.clear();
  live.sharding_ranks.clear();
}

Attempt& LiveOf(World& world, const AttemptId& id) {
  Runs* runs = FindRuns(world.state, id.owner);
  RT_CHECK(runs != nullptr);
  Attempt* live = runs->live();
  RT_CHECK(live != nullptr && live->number == id.number && live->generation == id.generation);
  return *live;
}

void Rewind(Trial& trial, uint64_t checkpoint_id) {
  const Checkpoint* from = nullptr;
  for (const Checkpoint& checkpoint : trial.runs.checkpoints)
    if (checkpoint.id == checkpoint_id) from = &checkpoint;
  std::vector<Segment> kept;
  for (const Segment& segment : trial.lineage) {
    if (from == nullptr) break;
    const auto order =
        std::pair(segment.attempt, segment.resizes) <=> std::pair(from->attempt, from->resizes);
    if (order > 0 || (order == 0 && from->seq == 0)) continue;  // No row of it was saved.
    kept.push_back(segment);
    if (order == 0) kept.back().seq_to = from->seq;
  }
  trial.lineage = std::move(kept);
  trial.last = from == nullptr ? LastReport{} : from->last;
  trial.reports = from == nullptr ? 0 : from->reports;
  trial.has_best = from != nullptr && from->has_best;
  trial.best = from == nullptr ? 0 : from->best;
  trial.best_iteration = from == nullptr ? 0 : from->best_iteration;
}

void ApplyEnd(World& world, const event::AttemptEnded& e, Millis at) {
  const Owner& owner = e.attempt.owner;
  Runs& runs = *FindRuns(world.state, owner);
  Attempt& live = LiveOf(world, e.attempt);
  const Millis unsaved = runs.Unsaved(at);
  CloseAttempt(live, e.outcome, at);
  live.exit_code = e.exit_code;
  live.signal = e.signal;
  live.reason = e.reason;
  live.rule = e.rule;
  live.gpu = e.gpu;
  const bool failed = (e.outcome == AttemptOutcome::kFailed ||
                       e.outcome == AttemptOutcome::kLaunchFailed) && !e.excused;
  const bool lost = e.outcome == AttemptOutcome::kLost;
  const bool evicted = e.outcome == AttemptOutcome::kPreempted;
  runs.failures += failed ? 1 : 0;
  runs.excused += e.excused ? 1 : 0;
  runs.hangs += e.outcome == AttemptOutcome::kHung ? 1 : 0;
  if (e.excluded.value != 0) runs.excluded.insert(e.excluded);
  runs.losses += lost ? 1 : 0;
  if (e.outcome != AttemptOutcome::kWithdrawn)
    runs.losses_in_row = lost ? runs.losses_in_row + 1 : 0;
  runs.evictions += evicted ? 1 : 0;
  if (lost || evicted) runs.lost_for += unsaved;
  Vacate(world, e.attempt, live);
  EndFreeze(live, at);
  EndResize(world, owner, live);
  const OwnerPolicy& policy = PolicyOf(owner);
  if (policy.apply_ended != nullptr) policy.apply_ended(world, owner);
  if (policy.may_run(world.state, owner)) AddReady(world, owner);
  if (ExperimentOf(world, owner) != nullptr) ReleaseThrottled(world, owner.trial().experiment);
}

void NoteCheckpointRow(Attempt& live, CheckpointRow row) {
  live.checkpoint_rows.push_back(std::move(row));
  if (live.checkpoint_rows.size() > limits::kCheckpointRowsMax)
    live.checkpoint_rows.erase(live.checkpoint_rows.begin());
}

void ApplyRows(World& world, const event::ReportsAccepted& e, uint64_t event_seq) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(e.seq_to > live.accepted.at(e.rank));
  live.accepted[e.rank] = e.seq_to;
  if (e.rank == 0 && AwaitsDecision(world, e.attempt.owner))
    NoteUndecided(live, event_seq, e.seq_to);
  if (e.rank != 0 && e.reported_with_checkpoint) live.sharding_ranks.insert(e.rank);
  const OwnerPolicy& policy = PolicyOf(e.attempt.owner);
  if (policy.apply_rows != nullptr) policy.apply_rows(world, e, live);
}

void ApplyShard(World& world, const event::CheckpointShardCommitted& e) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.ShardOf(e.rank, e.seq) == nullptr);
  if (e.rank != 0) live.sharding_ranks.insert(e.rank);
  const auto order = [](const CheckpointShard& shard) { return std::tuple(shard.seq, shard.rank); };
  CheckpointShard shard{e.rank,         e.manifest, e.seq,       e.iteration,
                        e.time_total_s, e.bytes,    e.has_score, e.score};
  const auto place =
      std::find_if(live.shards.begin(), live.shards.end(),
                   [&](const CheckpointShard& p) { return order(p) > order(shard); });
  live.shards.insert(place, std::move(shard));
  DropOldShards(live);
}

void ApplyCheckpoint(World& world, const event::CheckpointCommitted& e, Millis at) {
  Runs& runs = *FindRuns(world.state, e.attempt.owner);
  RT_CHECK(e.checkpoint >= runs.next_checkpoint);
  runs.next_checkpoint = e.checkpoint + 1;
  Checkpoint checkpoint{.id = e.checkpoint, .attempt = e.attempt.number, .manifest = e.manifest,
                        .seq = e.seq, .iteration = e.iteration, .time_total_s = e.time_total_s,
                        .bytes = e.bytes, .has_score = e.has_score, .score = e.score,
                        .committed_at = at};
  checkpoint.resizes = e.attempt.generation - 1;
  checkpoint.shards = e.shards;
  checkpoint.replicas = e.replicas;
  PolicyOf(e.attempt.owner).apply_checkpoint(world, e, checkpoint);
  Attempt& live = LiveOf(world, e.attempt);
  const auto is_older = [&](const auto& one) { return one.seq <= e.seq; };
  std::erase_if(live.checkpoint_rows, is_older);
  std::erase_if(live.shards, is_older);
  live.freeze.skipped = 0;
  // A stored checkpoint is retired only for newer ones; one with replicas only may be lost before.
  if (!e.replicas.empty()) live.replicated_seq = e.seq;
  CountReplicas(world, e.replicas, 1);
  runs.checkpoints.push_back(std::move(checkpoint));
}

void ApplyOutputs(World& world, const event::OutputsKept& e, Millis at) {
  std::vector<RankOutputs>& all = FindRuns(world.state, e.attempt.owner)->outputs;
  const uint32_t resizes = e.attempt.generation - 1;
  std::erase_if(all, [&](const RankOutputs& known) {
    return known.attempt != e.attempt.number || known.resizes != resizes || known.rank == e.rank;
  });
  const auto place = std::find_if(all.begin(), all.end(), [&](const RankOutputs& known) {
    return known.rank > e.rank;
  });
  all.insert(place, {e.attempt.number, e.rank, at, e.outputs, resizes});
}

void ApplyPreemption(World& world, const event::PreemptionRequested& e) {
  LiveOf(world, e.attempt).suspending = true;
}

void AddExit(World& world, const event::RankExited& e) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.ExitOf(e.exit.rank) == nullptr);
  live.exits.push_back(e.exit);
}

}  // namespace rt
