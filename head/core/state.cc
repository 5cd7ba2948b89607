#include "head/core/state.h"

#include <algorithm>

#include "head/core/incarnations.h"

namespace rt {

bool IsOpen(const Trial& trial) {
  return trial.end == TrialEnd::kNone && trial.stop_cause == StopCause::kNone;
}

bool MayRun(const Experiment& experiment, const Trial& trial) {
  return IsOpen(trial) && trial.pause_cause == PauseCause::kNone && !experiment.paused;
}

bool WantsNodes(const Experiment& experiment, const Trial& trial) {
  return MayRun(experiment, trial) && trial.runs.running() == nullptr;
}

const CheckpointRow* Attempt::CheckpointRowAt(uint64_t seq) const {
  for (const CheckpointRow& row : checkpoint_rows)
    if (row.seq == seq) return &row;
  return nullptr;
}

const CheckpointShard* Attempt::ShardOf(uint32_t rank, uint64_t seq) const {
  for (const CheckpointShard& shard : shards)
    if (shard.rank == rank && shard.seq == seq) return &shard;
  return nullptr;
}

const RankExit* Attempt::ExitOf(uint32_t rank) const {
  for (const RankExit& exit : exits)
    if (exit.rank == rank) return &exit;
  return nullptr;
}

bool Attempt::IsWanted(uint32_t rank) const {
  if (rank > 0 && port == 0) return false;
  const RankExit* exit = ExitOf(rank);
  return exit == nullptr || accepted[rank] < exit->last_seq;
}

const RankExit* Attempt::FirstFailure() const {
  for (const RankExit& exit : exits)
    if (exit.outcome != AttemptOutcome::kSucceeded) return &exit;
  return nullptr;
}

bool Checkpoint::IsOf(const Attempt& run) const {
  return attempt == run.number && resizes == run.resizes();
}

std::vector<Member> Attempt::Claims() const {
  if (!is_growing()) return {};
  return {resize.members.begin() + static_cast<std::ptrdiff_t>(members.size()),
          resize.members.end()};
}

const std::string& Trial::ParamsOf(uint32_t attempt) const {
  for (const TrialClone& clone : clones)
    if (attempt <= clone.attempt) return clone.params_before;
  return params;
}

bool Trial::Counts(const AttemptId& run, uint64_t seq) const {
  for (const Segment& segment : lineage)
    if (segment.attempt == run.number && segment.resizes == run.generation - 1)
      return segment.seq_to == 0 || seq <= segment.seq_to;
  return false;
}

std::vector<NodeId> CountingOf(const State& state, const std::vector<NodeId>& nodes) {
  std::vector<NodeId> counting;
  for (NodeId id : nodes) {
    auto node = state.nodes.find(id);
    // One that has joined and never said hello is not missed, either.
    if (node == state.nodes.end() || !node->second.ready || !node->second.counts()) continue;
    if (std::find(counting.begin(), counting.end(), id) == counting.end()) counting.push_back(id);
  }
  return counting;
}

NodeId UploaderOf(const State& state, const Checkpoint& checkpoint) {
  const std::vector<NodeId> left = CountingOf(state, checkpoint.replicas);
  return left.empty() ? NodeId{} : left.front();
}

bool IsReachable(const State& state, const Checkpoint& checkpoint) {
  return checkpoint.is_stored() || UploaderOf(state, checkpoint).value != 0;
}

ReplicaNodes ReplicasFor(const State& state, const AttemptId& id) {
  const Attempt* live = FindLive(state, id);
  if (live == nullptr) return {};
  for (const Checkpoint& one : FindRuns(state, id.owner)->checkpoints)
    if (one.id == live->checkpoint)
      return {CountingOf(state, one.replicas), !IsReachable(state, one)};
  return {.lost = true};
}

Millis Runs::Unsaved(Millis now) const {
  const Attempt* attempt = live();
  if (attempt == nullptr || attempt->started_at == 0) return 0;
  Millis from = attempt->started_at;
  if (!checkpoints.empty() && checkpoints.back().IsOf(*attempt))
    from = std::max(from, checkpoints.back().committed_at);
  const Millis until = attempt->is_frozen() ? attempt->freeze.frozen_at : now;
  return std::max<Millis>(0, until - from - attempt->freeze.skipped);
}

Millis Runs::InNewest() const {
  const Checkpoint& newest = checkpoints.back();
  const size_t count = checkpoints.size();
  if (count > 1 && checkpoints[count - 2].attempt == newest.attempt &&
      checkpoints[count - 2].resizes == newest.resizes)
    return newest.committed_at - checkpoints[count - 2].committed_at;
  for (const Attempt& attempt : attempts)
    if (newest.IsOf(attempt) && attempt.started_at != 0)
      return newest.committed_at - attempt.started_at;
  return 0;
}

const Trial* FindTrial(const State& state, TrialId id) {
  auto experiment = state.experiments.find(id.experiment);
  if (experiment == state.experiments.end()) return nullptr;
  const std::vector<Trial>& trials = experiment->second.trials;
  return id.number < trials.size() ? &trials[id.number] : nullptr;
}

Trial* FindTrial(State& state, TrialId id) {
  return const_cast<Trial*>(FindTrial(static_cast<const State&>(state), id));
}

const Attempt* FindLive(const State& state, const AttemptId& id) {
  const Runs* runs = FindRuns(state, id.owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || live->number != id.number || live->generation != id.generation)
    return nullptr;
  return live;
}

absl::Status CheckNewestDaemon(const State& state, NodeId id, uint64_t incarnation) {
  auto node = state.nodes.find(id);
  if (incarnation == 0 || node == state.nodes.end() ||
      incarnation >= KnownIncarnation(state, node->second))
    return absl::OkStatus();
  return absl::UnavailableError("a later daemon of this node has been heard");
}

}  // namespace rt
