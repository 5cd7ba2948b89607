// Attempts: what a worker observes of them, and how they end.
#include "common/base/check.h"
#include "common/base/limits.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/freeze.h"
#include "head/core/links.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

bool RunsHere(const Attempt& attempt, const Fence& fence, NodeId node) {
  return fence.rank < attempt.members.size() && attempt.members[fence.rank].node == node;
}

constexpr int kSigKill = 9, kSigTerm = 15, kExitTerm = 128 + kSigTerm;

bool EndedByTerm(const Observed& observed) {
  return observed.signal == kSigTerm || observed.exit_code == kExitTerm;
}

// A daemon that was started again meanwhile does not know that it had sent the signal.
bool WasSuspended(const Attempt& live, const Observed& observed) {
  return live.suspending &&
         (observed.suspended || EndedByTerm(observed) || observed.signal == kSigKill);
}

// It saved and ended; or its machine, shutting down, ended it.
bool WasPreempted(const Attempt& live, const Observed& observed) {
  return live.eviction_requested_at != 0 && (observed.suspended || EndedByTerm(observed));
}

// It saved and ended for a resize, which may have been given up meanwhile; or it was ended because
// it had not saved in time; or it was not started any more.
bool WasResized(const Attempt& live, const Observed& observed) {
  if (live.resize.requested_at == 0) return false;
  if (observed.suspended || live.resize.forced) return true;
  return live.resize.is_pending() && observed.pid == 0 && EndedByTerm(observed);
}

AttemptOutcome OutcomeOf(const State& state, const Attempt& live, const Observed& observed) {
  const Owner& owner = observed.fence.attempt.owner;
  if (PolicyOf(owner).is_stopping(state, owner)) return AttemptOutcome::kStopped;
  // However it ended: it was not to continue.
  if (live.replaced) return AttemptOutcome::kSuspended;
  if (WasSuspended(live, observed)) return AttemptOutcome::kSuspended;
  if (live.is_frozen()) return AttemptOutcome::kLost;  // It cannot have ended by itself.
  if (observed.orphaned || observed.broken_checkpoint) return AttemptOutcome::kLost;
  // The machine's failure, however the program took it.
  const bool failed = observed.exit_code != 0 || observed.signal != 0;
  if (failed && !observed.gpu_fault.empty()) return AttemptOutcome::kLost;
  if (failed && observed.untested)
    return PreflightsLost(*FindRuns(state, owner)) < limits::kPreflightLossesMax
               ? AttemptOutcome::kLost
               : AttemptOutcome::kLaunchFailed;
  if (observed.hung) return AttemptOutcome::kHung;
  if (live.resize.is_pending() && WasResized(live, observed)) return AttemptOutcome::kResized;
  if (WasPreempted(live, observed)) return AttemptOutcome::kPreempted;
  if (WasResized(live, observed)) return AttemptOutcome::kResized;
  if (observed.launch_failed) return AttemptOutcome::kLaunchFailed;
  if (observed.exit_code == 0 && observed.signal == 0) return AttemptOutcome::kSucceeded;
  return observed.witnessed ? AttemptOutcome::kFailed : AttemptOutcome::kLost;
}

std::string ReasonOf(const Observed& observed) {
  if (!observed.gpu_fault.empty() && (observed.exit_code != 0 || observed.signal != 0))
    return observed.gpu_fault;
  if (!observed.reason.empty()) return observed.reason;
  if (observed.signal != 0) return "killed by signal " + std::to_string(observed.signal);
  if (observed.exit_code != 0) return "exited with code " + std::to_string(observed.exit_code);
  return "";
}

// No next generation continues it.
void EndForGood(Draft& draft, const event::AttemptEnded& ended) {
  const AttemptId last = LastBackfill(draft.core.world, ended.attempt);
  draft.Emit(ended);
  NoteEnd(draft, ended.attempt, last);
  RetireByPolicy(draft, ended.attempt.owner);
  PolicyOf(ended.attempt.owner).after_attempt(draft, ended);
  EndSessionsOf(draft, ended.attempt);
}

// The attempt ends once everything that it reported is accepted.
void TryEnd(Draft& draft, NodeId node, const Observed& observed, const Attempt& live) {
  if (live.accepted[observed.fence.rank] < observed.last_seq) {
    draft.soft().nodes[node].exits[observed.fence] = observed;
    return;
  }
  event::AttemptEnded ended{.attempt = observed.fence.attempt,
                            .outcome = OutcomeOf(draft.state(), live, observed),
                            .exit_code = observed.exit_code,
                            .signal = observed.signal,
                            .reason = ReasonOf(observed),
                            .error = observed.error,
                            .gpu = observed.gpu};
  if (ended.outcome == AttemptOutcome::kFailed) ended.rule = FindRule(draft.core.world, observed);
  FollowRule(draft, ended, node);
  FollowHang(draft, ended, node);
  if (observed.untested) FollowPreflight(draft, ended, node);
  EndAttempt(draft, std::move(ended));
}

event::AttemptEnded EndBy(const Draft& draft, const AttemptId& attempt, const RankExit& exit) {
  std::string reason = exit.reason;
  if (!reason.empty()) reason = "rank " + std::to_string(exit.rank) + ": " + reason;
  event::AttemptEnded ended{.attempt = attempt, .outcome = exit.outcome,
                            .exit_code = exit.exit_code, .signal = exit.signal,
                            .reason = std::move(reason), .error = exit.error, .rule = exit.rule};
  for (const RankExit& one : FindLive(draft.core.world.state, attempt)->exits)
    ended.gpu = Together(ended.gpu, one.gpu);
  const NodeId node = FindLive(draft.core.world.state, attempt)->members[exit.rank].node;
  FollowRule(draft, ended, node);
  FollowHang(draft, ended, node);
  if (exit.untested) FollowPreflight(draft, ended, node);
  return ended;
}

// Since it was asked to (0: it was not): one rank may be ending, which the others may notice first.
bool HasSavedSince(const State& state, const AttemptId& id, const Attempt& live, Millis asked_at) {
  const std::vector<Checkpoint>& all = FindRuns(state, id.owner)->checkpoints;
  return asked_at != 0 && !all.empty() && all.back().IsOf(live) &&
         all.back().committed_at >= asked_at;
}

// Several ranks end together: as the first failure says, or as rank 0 ended.
void TryEndGang(Draft& draft, const AttemptId& id, const Attempt& live) {
  const uint32_t ranks = RanksOf(draft.core.world, id.owner, live);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (live.IsWanted(rank)) return;
  const RankExit* failure = live.FirstFailure();
  EndAttempt(draft, EndBy(draft, id, failure != nullptr ? *failure : *live.ExitOf(0)));
}

// The next attempt begins at the one before.
void RetireBroken(Draft& draft, const Owner& owner, uint64_t checkpoint) {
  for (const Checkpoint& kept : FindRuns(draft.state(), owner)->checkpoints)
    if (kept.id == checkpoint) return draft.Emit(event::CheckpointRetired{owner, checkpoint});
}

// One of several ranks.
void NoteExit(Draft& draft, const Observed& observed, const Attempt& live) {
  const Fence& fence = observed.fence;
  if (live.ExitOf(fence.rank) == nullptr) {
    RankExit exit{.rank = fence.rank,
                  .outcome = OutcomeOf(draft.state(), live, observed),
                  .exit_code = observed.exit_code,
                  .signal = observed.signal,
                  .last_seq = observed.last_seq,
                  .reason = ReasonOf(observed),
                  .error = observed.error,
                  .gpu = observed.gpu,
                  .untested = observed.untested};
    // It was asked to end, or its peers broke off: not its own failure, whatever it looks like.
    if (live.FirstFailure() != nullptr) exit.outcome = AttemptOutcome::kStopped;
    else if (live.suspending && exit.outcome == AttemptOutcome::kFailed)
      exit.outcome = AttemptOutcome::kSuspended;
    else if (live.resize.is_pending() && exit.outcome == AttemptOutcome::kFailed &&
             HasSavedSince(draft.state(), fence.attempt, live, live.resize.requested_at + 1))
      exit.outcome = AttemptOutcome::kResized;
    else if (exit.rank != 0 && exit.outcome == AttemptOutcome::kFailed &&
             HasSavedSince(draft.state(), fence.attempt, live, live.eviction_requested_at))
      exit.outcome = AttemptOutcome::kPreempted;
    if (exit.outcome == AttemptOutcome::kFailed) exit.rule = FindRule(draft.core.world, observed);
    draft.Emit(event::RankExited{fence.attempt, std::move(exit)});
  }
  TryEndGang(draft, fence.attempt, live);
}

void NoteStart(Draft& draft, const Observed& observed) {
  const AttemptId& id = observed.fence.attempt;
  draft.Emit(event::AttemptStarted{id, observed.fence.rank, observed.pid});
  RetireByPolicy(draft, id.owner);  // What only this rank still had to fetch.
}

}  // namespace

void OnObserved(Draft& draft, NodeId node, const Observed& observed) {
  const AttemptId& id = observed.fence.attempt;
  const Attempt* live = FindLive(draft.state(), id);
  const uint32_t ranks = live == nullptr ? 0 : RanksOf(draft.core.world, id.owner, *live);
  if (observed.fence.rank >= ranks || !RunsHere(*live, observed.fence, node)) {
    if (observed.phase != Observed::Phase::kExited) draft.soft().nodes[node].zombies = true;
    return;  // The next reply to its Sync lacks the attempt.
  }
  if (ranks > 1 && observed.fence.rank == 0 && observed.port != 0) {
    if (live->port == 0) draft.Emit(event::PortAgreed{id, observed.port});
    // Its daemon was replaced before it could tell its successor: the ranks would never meet.
    if (live->port != observed.port)
      return LoseAttempt(draft, id, "rank 0 keeps another port than was agreed");
  }
  // A journal that was not shipped in time has lost rows that the worker need not keep any more:
  // the attempt's rows can never be complete again.
  if (observed.acked_seq > live->accepted[observed.fence.rank])
    return LoseAttempt(draft, id, "the head before this one had accepted reports that are lost");
  if (observed.pid != 0 && live->pids[observed.fence.rank] != observed.pid)
    NoteStart(draft, observed);
  NoteMeasuredLinks(draft, observed, *live);
  if (observed.phase != Observed::Phase::kExited) return NoteFreeze(draft, observed);
  NoteSlowLinks(draft, observed, *live);
  if (observed.broken_checkpoint) RetireBroken(draft, id.owner, live->checkpoint);
  if (ranks == 1) {
    TryEnd(draft, node, observed, *live);
  } else {
    NoteExit(draft, observed, *live);
  }
}

void RetryExit(Draft& draft, NodeId node, const Fence& fence) {
  const Attempt* live = FindLive(draft.state(), fence.attempt);
  if (live == nullptr) return;
  if (!live->exits.empty()) return TryEndGang(draft, fence.attempt, *live);
  auto soft = draft.soft().nodes.find(node);
  if (soft == draft.soft().nodes.end()) return;
  auto exit = soft->second.exits.find(fence);
  if (exit == soft->second.exits.end()) return;
  if (live->accepted[fence.rank] < exit->second.last_seq) return;
  Observed observed = exit->second;
  soft->second.exits.erase(exit);
  TryEnd(draft, node, observed, *live);
}

void LoseAttempt(Draft& draft, const AttemptId& attempt, const std::string& reason) {
  const Attempt* live = FindLive(draft.state(), attempt);
  if (live == nullptr) return;  // Ended with another rank.
  const RankExit* failure = live->FirstFailure();
  if (failure != nullptr) return EndForGood(draft, EndBy(draft, attempt, *failure));
  EndForGood(draft, {.attempt = attempt, .outcome = AttemptOutcome::kLost, .reason = reason});
}

void EndAttempt(Draft& draft, event::AttemptEnded ended) {
  // Also where one of several ranks had ended before the attempt was replaced.
  const bool is_stopping =
      PolicyOf(ended.attempt.owner).is_stopping(draft.state(), ended.attempt.owner);
  if (FindLive(draft.state(), ended.attempt)->replaced && !is_stopping &&
      ended.outcome != AttemptOutcome::kLost) {
    ended.outcome = AttemptOutcome::kSuspended;
    ended.rule = 0;
    ended.excused = false;
    ended.excluded = {};
  }
  if (ended.outcome == AttemptOutcome::kResized && BeginGeneration(draft, ended.attempt))
    return EndSessionsOf(draft, ended.attempt);
  EndForGood(draft, ended);
}

}  // namespace rt
