// What trials and jobs wrote in their working directories: their workers upload it to the store
// after they have ended, and report it to the head here.
#include <algorithm>

#include "common/base/status.h"
#include "head/core/draft.h"

namespace rt {
namespace {

const Attempt* FindAttempt(const Runs& runs, const AttemptId& id) {
  for (const Attempt& attempt : runs.attempts)
    if (attempt.number == id.number && attempt.generation == id.generation) return &attempt;
  return nullptr;
}

bool RanOn(const Attempt& attempt, uint32_t rank, NodeId node) {
  return std::any_of(attempt.members.begin(), attempt.members.end(), [&](const Member& member) {
    return member.rank == rank && member.node == node;
  });
}

bool AreOfLater(const RankOutputs& kept, const AttemptId& id) {
  return std::pair(kept.attempt, kept.resizes) > std::pair(id.number, id.generation - 1);
}

bool IsKnown(const Runs& runs, const Fence& fence, const std::string& manifest) {
  return std::any_of(runs.outputs.begin(), runs.outputs.end(), [&](const RankOutputs& one) {
    return one.attempt == fence.attempt.number && one.resizes == fence.attempt.generation - 1 &&
           one.rank == fence.rank && one.kept.manifest == manifest;
  });
}

}  // namespace

absl::Status OnKeepOutputs(Draft& draft, const input::KeepOutputs& input) {
  RT_RETURN_IF_ERROR(CheckNewest(draft.core, input.node, input.seen_epoch));
  const AttemptId& id = input.fence.attempt;
  const Runs* runs = FindRuns(draft.state(), id.owner);
  const Attempt* attempt = runs == nullptr ? nullptr : FindAttempt(*runs, id);
  if (attempt == nullptr || !RanOn(*attempt, input.fence.rank, input.node))
    return absl::FailedPreconditionError("no such attempt has run on this node");
  if (attempt->ended_at == 0 && attempt->ExitOf(input.fence.rank) == nullptr)
    return absl::UnavailableError("the attempt has not ended yet");
  auto soft = draft.soft().nodes.find(input.node);
  if (soft != draft.soft().nodes.end()) soft->second.outputs.erase(input.fence);
  if (!runs->outputs.empty() && AreOfLater(runs->outputs.front(), id))
    return absl::FailedPreconditionError("the outputs of a later attempt are kept");
  if (!IsKnown(*runs, input.fence, input.outputs.manifest))
    draft.Emit(event::OutputsKept{id, input.fence.rank, input.outputs});
  return absl::OkStatus();
}

}  // namespace rt
