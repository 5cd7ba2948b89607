// Attempts: what a worker observes of them, and how they end.
#include "common/base/check.h"
#include "head/core/draft.h"

namespace rt {
namespace {

bool RunsHere(const Attempt& attempt, const Fence& fence, NodeId node) {
  return fence.rank < attempt.members.size() && attempt.members[fence.rank].node == node;
}

bool StopWanted(const State& state, const Owner& owner) {
  if (owner.is_job()) return state.jobs.at(owner.job()).stop_requested;
  return FindTrial(state, owner.trial())->stop_cause != StopCause::kNone;
}

constexpr int kSigKill = 9, kSigTerm = 15, kExitTerm = 128 + kSigTerm;

// A daemon that was started again meanwhile does not know that it had sent the signal.
bool WasSuspended(const Attempt& live, const Observed& observed) {
  return live.suspending && (observed.suspended || observed.signal == kSigTerm ||
                             observed.signal == kSigKill || observed.exit_code == kExitTerm);
}

AttemptOutcome OutcomeOf(const State& state, const Attempt& live, const Observed& observed) {
  if (StopWanted(state, observed.fence.attempt.owner)) return AttemptOutcome::kStopped;
  if (WasSuspended(live, observed)) return AttemptOutcome::kSuspended;
  if (observed.launch_failed) return AttemptOutcome::kLaunchFailed;
  if (observed.exit_code == 0 && observed.signal == 0) return AttemptOutcome::kSucceeded;
  return observed.witnessed ? AttemptOutcome::kFailed : AttemptOutcome::kLost;
}

std::string ReasonOf(const Observed& observed) {
  if (!observed.reason.empty()) return observed.reason;
  if (observed.signal != 0) return "killed by signal " + std::to_string(observed.signal);
  if (observed.exit_code != 0) return "exited with code " + std::to_string(observed.exit_code);
  return "";
}

// The attempt ends once everything that it reported is accepted.
void TryEnd(Draft& draft, NodeId node, const Observed& observed, const Attempt& live) {
  if (live.accepted[observed.fence.rank] < observed.last_seq) {
    draft.soft().nodes[node].exits[observed.fence] = observed;
    return;
  }
  EndAttempt(draft, {.attempt = observed.fence.attempt,
                     .outcome = OutcomeOf(draft.state(), live, observed),
                     .exit_code = observed.exit_code,
                     .signal = observed.signal,
                     .reason = ReasonOf(observed),
                     .error = observed.error});
}

}  // namespace

void OnObserved(Draft& draft, NodeId node, const Observed& observed) {
  const Attempt* live = FindLive(draft.state(), observed.fence.attempt);
  if (live == nullptr || !RunsHere(*live, observed.fence, node)) {
    if (observed.phase != Observed::Phase::kExited) draft.soft().nodes[node].zombies = true;
    draft.soft().dirty.insert(node);  // Tell it so.
    return;
  }
  if (observed.pid != 0 && live->pids[observed.fence.rank] != observed.pid)
    draft.Emit(event::AttemptStarted{observed.fence.attempt, observed.fence.rank, observed.pid});
  if (observed.phase == Observed::Phase::kExited) TryEnd(draft, node, observed, *live);
}

void RetryExit(Draft& draft, NodeId node, const Fence& fence) {
  auto soft = draft.soft().nodes.find(node);
  if (soft == draft.soft().nodes.end()) return;
  auto exit = soft->second.exits.find(fence);
  if (exit == soft->second.exits.end()) return;
  const Attempt* live = FindLive(draft.state(), fence.attempt);
  if (live == nullptr || live->accepted[fence.rank] < exit->second.last_seq) return;
  Observed observed = exit->second;
  soft->second.exits.erase(exit);
  TryEnd(draft, node, observed, *live);
}

void EndAttempt(Draft& draft, event::AttemptEnded ended) {
  draft.Emit(ended);
  if (ended.attempt.owner.is_trial()) {
    AfterTrialAttempt(draft, ended);
  } else {
    AfterJobAttempt(draft, ended);
  }
}

}  // namespace rt
