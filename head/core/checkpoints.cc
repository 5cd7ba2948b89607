// Checkpoints: bytes first, then this commit; older ones are retired by the experiment's policy.
#include <algorithm>
#include <cmath>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

// Worse first: NaN, then by score in the policy's order, then the older one.
bool WorseThan(const Checkpoint& a, const Checkpoint& b, const CheckpointPolicy& policy) {
  if (policy.score_attribute.empty()) return a.id < b.id;
  auto rank = [&](const Checkpoint& c) -> double {
    if (!c.has_score || std::isnan(c.score)) return -INFINITY;
    return policy.score_order == Mode::kMax ? c.score : -c.score;
  };
  double left = rank(a), right = rank(b);
  return left != right ? left < right : a.id < b.id;
}

// What an attempt resumes from, now or later: the newest, the newest in the store, and the one
// after that, which is being uploaded. Otherwise a trial that saves often would never be stored.
std::set<uint64_t> NeededOf(const std::vector<Checkpoint>& all) {
  std::set<uint64_t> needed;
  if (!all.empty()) needed.insert(all.back().id);
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (at->is_stored()) {
      needed.insert(at->id);
      if (at != all.rbegin()) needed.insert((at - 1)->id);
      return needed;
    }
  }
  if (!all.empty()) needed.insert(all.front().id);
  return needed;
}

bool IsBy(const Checkpoint& known, const AttemptId& attempt) {
  return known.attempt == attempt.number && known.resizes == attempt.generation - 1;
}

bool IsSame(const Checkpoint& known, const input::CommitCheckpoint& input) {
  if (!IsBy(known, input.fence.attempt) || known.seq != input.row.seq) return false;
  return known.manifest == input.manifest ||
         std::find(known.shards.begin(), known.shards.end(), input.manifest) != known.shards.end();
}

// The committed checkpoint that answers the request; null: it is a new one.
const Checkpoint* FindKnown(const Runs& runs, const input::CommitCheckpoint& input) {
  for (const Checkpoint& known : runs.checkpoints)
    if (IsSame(known, input)) return &known;  // Asked again: the answer was lost.
  if (runs.checkpoints.empty()) return nullptr;
  const Checkpoint& newest = runs.checkpoints.back();
  // A late copy of an older request changes nothing.
  const bool is_late = IsBy(newest, input.fence.attempt) && input.row.seq < newest.seq;
  return is_late || input.row.iteration < newest.iteration ? &newest : nullptr;
}

// So many newer ones are pending that this row is not waited for any more.
bool IsOutdated(const Attempt& live, uint64_t seq) {
  std::set<uint64_t> newer;
  for (const CheckpointShard& shard : live.shards)
    if (shard.seq > seq) newer.insert(shard.seq);
  return newer.size() >= limits::kCheckpointRowsMax;
}

absl::Status CheckRow(const Attempt& live, const input::CommitCheckpoint& input) {
  const uint32_t rank = input.fence.rank;
  if (input.row.seq > live.accepted[rank] + 1)
    return absl::UnavailableError("the rows before it have not arrived yet");
  if (rank != 0 && live.accepted[0] > input.row.seq &&
      live.CheckpointRowAt(input.row.seq) == nullptr)
    return absl::FailedPreconditionError(
        "rank 0 has no checkpoint at that row that waits for this shard");
  if (rank == 0 && input.row.seq < live.accepted[0] &&
      live.CheckpointRowAt(input.row.seq) == nullptr)
    return absl::FailedPreconditionError("newer checkpoints have taken its place");
  return absl::OkStatus();
}

struct Score {
  bool has = false;
  double value = 0;
};
Score ScoreOf(const Row& row, const CheckpointPolicy& policy) {
  auto metrics = Json::Parse(row.metrics);
  if (!metrics.ok() || policy.score_attribute.empty()) return {};
  const std::optional<double> score =
      RowValue({*metrics, row.iteration, row.time_total_s}, policy.score_attribute);
  return {score.has_value(), score.value_or(0)};
}

// No part of it is missing: every other rank has given its own, or has passed that row and never
// gave any.
bool IsComplete(const Attempt& live, uint32_t ranks, uint64_t seq) {
  if (seq < live.accepted[0] && live.CheckpointRowAt(seq) == nullptr) return false;
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    if (live.ShardOf(rank, seq) != nullptr) continue;
    if (live.accepted[rank] < seq || live.sharding_ranks.contains(rank)) return false;
  }
  return true;
}

event::CheckpointCommitted CompleteCheckpoint(const Attempt& live, const CheckpointShard& first,
                                              const AttemptId& attempt, uint64_t number) {
  event::CheckpointCommitted committed{.attempt = attempt,
                                       .checkpoint = number,
                                       .manifest = first.manifest,
                                       .seq = first.seq,
                                       .iteration = first.iteration,
                                       .time_total_s = first.time_total_s,
                                       .has_score = first.has_score,
                                       .score = first.score};
  for (const CheckpointShard& shard : live.shards) {
    if (shard.seq != first.seq) continue;
    committed.bytes += shard.bytes;
    if (shard.rank != 0) committed.shards.push_back(shard.manifest);
  }
  return committed;
}

// The checkpoint that the live attempt resumes from, while a rank may still have to fetch it: rank
// 0 can be far ahead. 0: none.
uint64_t FetchedFrom(const Draft& draft, const Owner& owner) {
  const Attempt* live = FindRuns(draft.core.world.state, owner)->live();
  if (live == nullptr) return 0;
  const uint32_t ranks = RanksOf(draft.core.world, owner, *live);
  if (ranks == 1) return 0;  // A rank that commits has started.
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (live->pids[rank] == 0) return live->checkpoint;
  return 0;
}

}  // namespace

// Keeps the best `num_to_keep`, which the user asked for, and besides them those needed to resume.
void RetireByPolicy(Draft& draft, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(draft.core.world, owner);
  if (experiment == nullptr) return;
  const CheckpointPolicy& policy = experiment->spec.checkpoints;
  if (!policy.num_to_keep.has_value()) return;
  const std::vector<Checkpoint>& all = FindRuns(draft.state(), owner)->checkpoints;
  const auto keep = static_cast<size_t>(*policy.num_to_keep);
  if (all.size() <= keep) return;
  std::vector<const Checkpoint*> by_worth;
  for (const Checkpoint& checkpoint : all) by_worth.push_back(&checkpoint);
  std::sort(by_worth.begin(), by_worth.end(), [&](const Checkpoint* a, const Checkpoint* b) {
    return WorseThan(*a, *b, policy);
  });
  by_worth.resize(by_worth.size() - keep);  // The worst first.
  std::set<uint64_t> needed = NeededOf(all);
  needed.insert(FetchedFrom(draft, owner));
  std::vector<uint64_t> retired;
  for (const Checkpoint* one : by_worth)
    if (!needed.contains(one->id)) retired.push_back(one->id);
  for (uint64_t id : retired) draft.Emit(event::CheckpointRetired{owner, id});
}

void CommitComplete(Draft& draft, const AttemptId& attempt) {
  const Attempt* live = FindLive(draft.state(), attempt);
  if (live == nullptr || live->shards.empty() || live->replaced) return;
  const uint32_t ranks = RanksOf(draft.core.world, attempt.owner, *live);
  for (const CheckpointShard& shard :
       std::vector<CheckpointShard>(live->shards)) {  // Emit edits them.
    if (shard.rank != 0 || !IsComplete(*live, ranks, shard.seq)) continue;
    const uint64_t number = FindRuns(draft.state(), attempt.owner)->next_checkpoint;
    draft.Emit(CompleteCheckpoint(*live, shard, attempt, number));
    draft.MarkDirty(attempt.owner);  // Ranks that were asked to save may end.
    RetireByPolicy(draft, attempt.owner);
    ConsiderReallocation(draft, attempt, shard.seq);
  }
}

// Rows that a trial reports after it was told to stop are no results, and a checkpoint of one would
// be ahead of what is known of the trial.
static bool IsAfterStop(Draft& draft, const Attempt& live, const input::CommitCheckpoint& input) {
  const Trial* trial = ReportingTrial(draft.state(), input.fence.attempt.owner);
  if (trial == nullptr || trial->stop_cause == StopCause::kNone || input.fence.rank != 0)
    return false;
  return input.row.seq > live.accepted[0] || live.CheckpointRowAt(input.row.seq) == nullptr;
}

absl::Status OnCommitCheckpoint(Draft& draft, const input::CommitCheckpoint& input) {
  RT_RETURN_IF_ERROR(CheckNewest(draft.core, input.node, input.seen_epoch));
  const AttemptId& attempt = input.fence.attempt;
  const uint32_t rank = input.fence.rank;
  const Attempt* live = FindLive(draft.state(), attempt);
  if (live == nullptr || !PolicyOf(attempt.owner).saves() ||
      rank >= RanksOf(draft.core.world, attempt.owner, *live))
    return absl::FailedPreconditionError("the attempt is not the current one");
  const NodeId node = live->members[rank].node;
  RT_RETURN_IF_ERROR(CheckNewestDaemon(draft.state(), node, input.incarnation));
  if (live->replaced)
    return absl::FailedPreconditionError("the trial continues from a checkpoint of another trial");
  Runs* runs = FindRuns(draft.state(), attempt.owner);
  if (const Checkpoint* known = FindKnown(*runs, input)) {
    draft.out.answer.checkpoint = known->id;
    return absl::OkStatus();
  }
  if (rank == 0 && input.row.seq != 0 && input.row.seq <= live->replicated_seq) {
    draft.out.answer.checkpoint = runs->next_checkpoint - 1;  // It was committed, and is retired.
    return absl::OkStatus();
  }
  if (live->ShardOf(rank, input.row.seq) != nullptr || IsOutdated(*live, input.row.seq))
    return absl::OkStatus();
  RT_RETURN_IF_ERROR(CheckRow(*live, input));
  const bool is_shard =
      rank != 0 || (input.collective && RanksOf(draft.core.world, attempt.owner, *live) > 1);
  std::vector<NodeId> nodes = CountingOf(draft.state(), input.replicas);
  if (!input.replicas.empty() && (is_shard || nodes.empty() || nodes.front() != node))
    return Invalid("only the node of a single rank may have a replica of its checkpoint");
  if (IsAfterStop(draft, *live, input))
    return absl::FailedPreconditionError("the trial was told to stop before this row");
  if (input.row.seq > live->accepted[rank])
    AcceptRows(draft, NodeId{}, {attempt, rank, {input.row}}, is_shard);
  // The row may have been the one for which the trial was cloned.
  live = FindLive(draft.state(), attempt);
  if (live == nullptr || live->replaced) {
    RetryExit(draft, node, input.fence);
    return absl::OkStatus();
  }
  runs = FindRuns(draft.state(), attempt.owner);  // Trials may have been created.
  const ExperimentIndex* experiment = ExperimentOf(draft.core.world, attempt.owner);
  const Score score =
      experiment == nullptr ? Score{} : ScoreOf(input.row, experiment->spec.checkpoints);
  if (is_shard) {
    draft.Emit(event::CheckpointShardCommitted{attempt, rank, input.manifest, input.row.seq,
                                               input.row.iteration, input.row.time_total_s,
                                               input.bytes, score.has, score.value});
    CommitComplete(draft, attempt);
  } else {
    event::CheckpointCommitted committed{.attempt = attempt,
                                         .checkpoint = runs->next_checkpoint,
                                         .manifest = input.manifest,
                                         .seq = input.row.seq,
                                         .iteration = input.row.iteration,
                                         .time_total_s = input.row.time_total_s,
                                         .bytes = input.bytes,
                                         .has_score = score.has,
                                         .score = score.value,
                                         .replicas = std::move(nodes)};
    draft.Emit(committed);
    draft.out.answer.checkpoint = committed.checkpoint;
    RetireByPolicy(draft, attempt.owner);
    ConsiderReallocation(draft, attempt, committed.seq);
  }
  RetryExit(draft, node, input.fence);  // The exit may have waited for this row.
  return absl::OkStatus();
}

}  // namespace rt
