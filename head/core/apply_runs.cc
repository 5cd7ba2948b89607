#include "head/core/apply_runs.h"

#include <algorithm>
#include <tuple>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "head/core/core.h"
#include "head/core/index.h"

namespace rt {
namespace {

// Marks kept per attempt: a trial waits after each row, so there is one, unless it cannot wait.
constexpr size_t kMarksMax = 64;

bool AwaitsDecision(const World& world, const Owner& owner) {
  return owner.is_trial() &&
         world.index.experiments.at(owner.trial().experiment).spec.driver.schedules;
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

Attempt& LiveOf(World& world, const AttemptId& id) {
  Runs* runs = FindRuns(world.state, id.owner);
  RT_CHECK(runs != nullptr);
  Attempt* live = runs->live();
  RT_CHECK(live != nullptr && live->number == id.number);
  return *live;
}

void Rewind(Trial& trial, uint64_t checkpoint_id) {
  const Checkpoint* from = nullptr;
  for (const Checkpoint& checkpoint : trial.runs.checkpoints)
    if (checkpoint.id == checkpoint_id) from = &checkpoint;
  std::vector<Segment> kept;
  for (const Segment& segment : trial.lineage) {
    if (from == nullptr || segment.attempt > from->attempt) continue;
    if (segment.attempt == from->attempt && from->seq == 0) continue;  // No row was in it.
    kept.push_back(segment);
    if (segment.attempt == from->attempt) kept.back().seq_to = from->seq;
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
  live.ended_at = at;
  live.checkpoint_rows.clear();
  live.shards.clear();
  live.sharding_ranks.clear();
  live.outcome = e.outcome;
  live.exit_code = e.exit_code;
  live.signal = e.signal;
  live.reason = e.reason;
  live.rule = e.rule;
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
  bool wants_nodes = true;
  if (owner.is_trial()) {
    const Trial& trial = *FindTrial(world.state, owner.trial());
    ExperimentIndex& index = world.index.experiments.at(trial.id.experiment);
    index.live.erase(trial.id.number);
    index.pending.insert(trial.id.number);
    wants_nodes = WantsNodes(world.state.experiments.at(trial.id.experiment), trial);
  } else {
    wants_nodes = !world.state.jobs.at(owner.job()).stop_requested;
  }
  if (wants_nodes) AddReady(world, owner);
  if (owner.is_trial()) ReleaseThrottled(world, owner.trial().experiment);
}

void ApplyRows(World& world, const event::ReportsAccepted& e, uint64_t event_seq) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(e.seq_to > live.accepted.at(e.rank));
  live.accepted[e.rank] = e.seq_to;
  if (e.rank == 0 && AwaitsDecision(world, e.attempt.owner))
    NoteUndecided(live, event_seq, e.seq_to);
  if (e.rank != 0 && e.reported_with_checkpoint) live.sharding_ranks.insert(e.rank);
  if (e.rank != 0 || !e.attempt.owner.is_trial() || e.count == 0) return;
  Trial& trial = *FindTrial(world.state, e.attempt.owner.trial());
  trial.last = e.last;
  trial.reports += e.count;
  if (e.has_best && !(trial.has_best && trial.best == e.best)) {
    trial.has_best = true;
    trial.best = e.best;
    trial.best_iteration = e.best_iteration;
    RefreshBest(world, trial.id);
  }
  if (!e.reported_with_checkpoint) return;
  live.checkpoint_rows.push_back(
      {e.last.seq, trial.last, trial.reports, trial.has_best, trial.best, trial.best_iteration});
  if (live.checkpoint_rows.size() > limits::kCheckpointRowsMax)
    live.checkpoint_rows.erase(live.checkpoint_rows.begin());
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
  checkpoint.shards = e.shards;
  checkpoint.replicas = e.replicas;
  if (e.attempt.owner.is_trial()) {
    const Trial& trial = *FindTrial(world.state, e.attempt.owner.trial());
    CheckpointRow known{e.seq,          trial.last, trial.reports,
                        trial.has_best, trial.best, trial.best_iteration};
    Attempt& live = LiveOf(world, e.attempt);
    if (const CheckpointRow* row = live.CheckpointRowAt(e.seq)) known = *row;
    const auto is_older = [&](const auto& one) { return one.seq <= e.seq; };
    std::erase_if(live.checkpoint_rows, is_older);
    std::erase_if(live.shards, is_older);
    checkpoint.last = known.last;
    checkpoint.reports = known.reports;
    checkpoint.has_best = known.has_best;
    checkpoint.best = known.best;
    checkpoint.best_iteration = known.best_iteration;
  }
  // A stored checkpoint is retired only for newer ones; one with replicas only may be lost before.
  if (!e.replicas.empty()) LiveOf(world, e.attempt).replicated_seq = e.seq;
  CountReplicas(world, e.replicas, 1);
  runs.checkpoints.push_back(std::move(checkpoint));
}

void ApplyOutputs(World& world, const event::OutputsKept& e, Millis at) {
  std::vector<RankOutputs>& all = FindRuns(world.state, e.attempt.owner)->outputs;
  std::erase_if(all, [&](const RankOutputs& known) {
    return known.attempt != e.attempt.number || known.rank == e.rank;
  });
  const auto place = std::find_if(all.begin(), all.end(), [&](const RankOutputs& known) {
    return known.rank > e.rank;
  });
  all.insert(place, {e.attempt.number, e.rank, at, e.outputs});
}

}  // namespace rt
