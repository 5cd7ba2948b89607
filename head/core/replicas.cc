// Checkpoints that were committed before the store had them: nodes have replicas, one of the nodes
// uploads it, and all replicas are released once the store has it or it is retired.
#include <algorithm>

#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {
namespace {

// Checkpoints with these bytes that the store does not have; several rows may have the same bytes.
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

// Whether a commit of these bytes may still be on its way: its attempt lives, and has committed
// nothing of this row or a later one.
bool IsCommitPending(const State& state, const input::RenewReplica& input) {
  if (!input.is_early || input.row == 0) return input.is_early;
  const Attempt* live = FindLive(state, {input.owner, input.attempt, input.generation});
  if (live == nullptr) return false;
  uint64_t settled = live->replicated_seq;
  for (const Checkpoint& checkpoint : FindRuns(state, input.owner)->checkpoints)
    if (checkpoint.IsOf(*live)) settled = std::max(settled, checkpoint.seq);
  return input.row > settled;
}

// The node has lost the replica; without another one the checkpoint is retired.
void DropReplica(Draft& draft, const input::RenewReplica& input, const Checkpoint& checkpoint) {
  if (checkpoint.replicas.size() == 1) {
    const Attempt* live = FindRuns(draft.state(), input.owner)->live();
    // It would start from scratch with the counters of the lost checkpoint.
    if (live != nullptr && live->checkpoint == checkpoint.id && live->accepted.front() == 0)
      LoseAttempt(draft, {input.owner, live->number, live->generation},
                  "the checkpoint that it starts from is lost: no node has it any more");
    return draft.Emit(event::CheckpointRetired{input.owner, checkpoint.id});
  }
  draft.Emit(event::CheckpointReplicaLost{input.owner, checkpoint.id, input.node});
}

}  // namespace

absl::Status OnRenewReplica(Draft& draft, const input::RenewReplica& input) {
  // A head that lacks the newest records would release it.
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
  // The node asks no more after this answer: a superseded head must not give it.
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
