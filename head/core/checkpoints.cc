// Checkpoints: bytes first, then this commit; older ones are retired by the experiment's policy.
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "head/core/draft.h"

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

// Keeps the best `num_to_keep` by the policy, and the newest beside them if it is not one of them:
// the first are what people want, the last is where the trial goes on from.
void Retire(Draft& draft, const Owner& owner, const CheckpointPolicy& policy) {
  if (!policy.num_to_keep.has_value()) return;
  const auto worse = [&](const Checkpoint& a, const Checkpoint& b) {
    return WorseThan(a, b, policy);
  };
  const std::vector<Checkpoint>& all = FindRuns(draft.state(), owner)->checkpoints;
  while (all.size() > static_cast<size_t>(*policy.num_to_keep) && all.size() > 1) {
    const bool newest_is_worst =
        std::min_element(all.begin(), all.end(), worse)->id == all.back().id;
    if (newest_is_worst && all.size() == static_cast<size_t>(*policy.num_to_keep) + 1) return;
    auto worst = std::min_element(all.begin(), all.end() - 1, worse);
    draft.Emit(event::CheckpointRetired{owner, worst->id});
  }
}

}  // namespace

absl::Status OnCommitCheckpoint(Draft& draft, const input::CommitCheckpoint& input) {
  RT_RETURN_IF_ERROR(CheckNewest(draft.state(), input.seen_epoch));
  const AttemptId& attempt = input.fence.attempt;
  const Attempt* live = FindLive(draft.state(), attempt);
  if (live == nullptr || input.fence.rank >= live->members.size() || !attempt.owner.is_trial())
    return absl::FailedPreconditionError("the attempt is not the current one");
  if (input.fence.rank != 0)
    return Invalid("a checkpoint of rank " + std::to_string(input.fence.rank) +
                       ": only rank 0's is kept",
                   "report without one on the other ranks");
  Runs* runs = FindRuns(draft.state(), attempt.owner);
  for (const Checkpoint& known : runs->checkpoints) {  // Asked again: the answer was lost.
    if (known.attempt != attempt.number || known.seq != input.row.seq ||
        known.manifest != input.manifest)
      continue;
    draft.out.answer.checkpoint = known.id;
    return absl::OkStatus();
  }
  if (!runs->checkpoints.empty()) {  // A late copy of an older request changes nothing.
    const Checkpoint& newest = runs->checkpoints.back();
    if (input.row.iteration < newest.iteration ||
        (newest.attempt == attempt.number && input.row.seq < newest.seq)) {
      draft.out.answer.checkpoint = newest.id;
      return absl::OkStatus();
    }
  }
  const NodeId node = live->members[input.fence.rank].node;
  if (input.row.seq > live->accepted[input.fence.rank] + 1)
    return absl::UnavailableError("the rows before it have not arrived yet");
  if (input.row.seq < live->accepted[input.fence.rank] && live->SavedAt(input.row.seq) == nullptr)
    return absl::FailedPreconditionError("newer checkpoints have taken its place");
  const Trial& trial = *FindTrial(draft.state(), attempt.owner.trial());
  const ExperimentSpec& spec = draft.index().experiments.at(trial.id.experiment).spec;
  if (input.row.seq > live->accepted[input.fence.rank]) {
    AcceptRows(draft, NodeId{}, {attempt, input.fence.rank, {input.row}});
  }
  event::CheckpointCommitted committed{.attempt = attempt,
                                       .checkpoint = runs->next_checkpoint,
                                       .manifest = input.manifest,
                                       .seq = input.row.seq,
                                       .iteration = input.row.iteration,
                                       .time_total_s = input.row.time_total_s,
                                       .bytes = input.bytes};
  if (auto metrics = Json::Parse(input.row.metrics);
      metrics.ok() && !spec.checkpoints.score_attribute.empty()) {
    std::optional<double> score =
        RowValue({*metrics, input.row.iteration, input.row.time_total_s},
                 spec.checkpoints.score_attribute);
    committed.has_score = score.has_value();
    committed.score = score.value_or(0);
  }
  draft.Emit(committed);
  draft.out.answer.checkpoint = committed.checkpoint;
  Retire(draft, attempt.owner, spec.checkpoints);
  RetryExit(draft, node, input.fence);  // The row may have been the last that was waited for.
  return absl::OkStatus();
}

}  // namespace rt
