// Checkpoints that were committed before the store had them: nodes hold them on its behalf, one of
// them pushes, and all let go once it is there or nobody wants it any more.
#include <algorithm>

#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {
namespace {

// Those with these bytes that wait for the store; several rows may have been saved with the same.
std::vector<Checkpoint> AwaitingUpload(const State& state, const input::RenewReplica& input) {
  std::vector<Checkpoint> found;
  const Runs* runs = FindRuns(state, input.owner);
  if (runs == nullptr) return found;
  for (const Checkpoint& checkpoint : runs->checkpoints)
    if (checkpoint.manifest == input.manifest && !checkpoint.is_stored())
      found.push_back(checkpoint);
  return found;
}

bool HasReplica(const Checkpoint& checkpoint, NodeId node) {
  return std::find(checkpoint.replicas.begin(), checkpoint.replicas.end(), node) !=
         checkpoint.replicas.end();
}

// Whether a commit that names these bytes may still be on its way: its attempt lives, and has
// committed nothing of this row or a later one.
bool IsCommitPending(const State& state, const input::RenewReplica& input) {
  if (!input.is_early || input.row == 0) return input.is_early;
  const Attempt* live = FindLive(state, {input.owner, input.attempt});
  if (live == nullptr) return false;
  uint64_t settled = live->replicated_seq;
  for (const Checkpoint& checkpoint : FindRuns(state, input.owner)->checkpoints)
    if (checkpoint.attempt == live->number) settled = std::max(settled, checkpoint.seq);
  return input.row > settled;
}

// It has lost the bytes; without another who has them the checkpoint is none any more.
void DropReplica(Draft& draft, const input::RenewReplica& input, const Checkpoint& checkpoint) {
  if (checkpoint.replicas.size() == 1) {
    const Attempt* live = FindRuns(draft.state(), input.owner)->live();
    // It would begin anew with the counters of what is gone.
    if (live != nullptr && live->checkpoint == checkpoint.id && live->accepted.front() == 0)
      LoseAttempt(draft, {input.owner, live->number},
                  "no node has the checkpoint any more that it was to go on from");
    return draft.Emit(event::CheckpointRetired{input.owner, checkpoint.id});
  }
  draft.Emit(event::CheckpointReplicaLost{input.owner, checkpoint.id, input.node});
}

}  // namespace

absl::Status OnRenewReplica(Draft& draft, const input::RenewReplica& input) {
  // A head that lacks the newest records would say that nobody wants it.
  RT_RETURN_IF_ERROR(CheckNewest(draft.core, input.node, input.seen_epoch));
  RT_RETURN_IF_ERROR(CheckNewestDaemon(draft.state(), input.node, input.incarnation));
  using ReplicaStatus = input::RenewReplica::ReplicaStatus;
  for (const Checkpoint& checkpoint : AwaitingUpload(draft.state(), input)) {
    if (!HasReplica(checkpoint, input.node)) continue;
    if (input.status == ReplicaStatus::kStored) {
      draft.Emit(event::CheckpointStored{input.owner, checkpoint.id});
    } else if (input.status == ReplicaStatus::kGone) {
      DropReplica(draft, input, checkpoint);
    }
  }
  const bool is_known = FindRuns(draft.state(), input.owner) != nullptr;
  if (input.status != ReplicaStatus::kNone && is_known) RetireByPolicy(draft, input.owner);
  for (const Checkpoint& checkpoint : AwaitingUpload(draft.state(), input)) {
    if (!HasReplica(checkpoint, input.node)) continue;
    draft.out.answer.needed = true;
    if (UploaderOf(draft.state(), checkpoint) == input.node) draft.out.answer.push = true;
  }
  if (draft.out.answer.needed) return absl::OkStatus();
  if (input.status != ReplicaStatus::kGone && IsCommitPending(draft.state(), input))
    return absl::OkStatus();
  draft.out.answer.release = true;
  // It is told once, and asks no more: a head that has been superseded does not get to answer.
  if (draft.out.records.empty())
    draft.Emit(event::CheckpointReleased{input.owner, input.manifest, input.node});
  return absl::OkStatus();
}

void RetireUnreachable(Draft& draft, const Owner& owner) {
  const Runs& runs = *FindRuns(draft.state(), owner);
  while (!runs.checkpoints.empty() && !IsReachable(draft.state(), runs.checkpoints.back()))
    draft.Emit(event::CheckpointRetired{owner, runs.checkpoints.back().id});
}

}  // namespace rt
