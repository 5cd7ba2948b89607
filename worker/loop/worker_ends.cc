// What the worker loop does with attempts whose program has ended: their last output and reports,
// and what they saved, until their end is reported.
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/run/failpoint.h"
#include "worker/core/memory_error.h"
#include "worker/loop/worker_loop.h"
#include "worker/session/log_patterns.h"
#include "worker/session/push_end.h"

namespace rt::worker {

// Nobody will go on from what it saved: people want it, and its node may go. Who goes on elsewhere
// need not wait for the store.
bool WorkerLoop::IsItsEnd(const LiveAttempt& live, const Fence& fence) const {
  const AttemptState& attempt = state_.attempts.at(fence);
  const Standing standing = live.standing();
  if (live.said_suspended() || standing.suspend || standing.evict || !attempt.wanted) return false;
  return attempt.stop || (attempt.exit.exit_code == 0 && attempt.exit.signal == 0);
}

// Why nothing more of what it saved is pushed; "": its push continues.
std::string WorkerLoop::GiveUpPush(const LiveAttempt& live, const Fence& fence) {
  const Standing standing = live.standing();
  const bool resumes = live.said_suspended() || standing.suspend || standing.evict;
  const auto ended_for = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - ended_.at(fence));
  std::string why;
  switch (DecidePushEnd(state_.attempts.at(fence), resumes, ended_for.count())) {
    case PushEnd::kWait: return "";
    case PushEnd::kUnwanted:
      why = "its last checkpoint is not pushed any more: the attempt is over";
      break;
    case PushEnd::kStoppedLong:
      why = "its last checkpoint was given up: it was still being pushed " +
            std::to_string(limits::kPushAfterStop / 60'000) + " minutes after the stop";
      break;
  }
  RT_LOG(kWarning) << rt::ToString(fence) << ": " << why;
  parts_.pushes.Forget(fence);
  return why;
}

void WorkerLoop::PumpEnded() {
  std::vector<Fence> draining;
  for (const auto& [fence, attempt] : state_.attempts) {
    if (attempt.stage == Stage::kDraining) draining.push_back(fence);
  }
  for (const Fence& fence : draining) {
    const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kEnd);
    auto live = parts_.attempts.Find(fence);
    const ExitFacts exit = state_.attempts.at(fence).exit;
    if (live == nullptr) {
      Feed(input::Drained{fence, 0, {}});
      continue;
    }
    if (!ended_.contains(fence)) NoteEnd(fence, exit);  // It was never started.
    if (!live->PumpStdout(false)) {
      if (!live->spool().IsFull()) Wake();  // There is more.
      continue;
    }
    if (!live->IsSocketDone() || !parts_.gpus.IsGivenBack(fence)) continue;
    std::string given_up;
    if (parts_.pushes.Has(fence)) {
      given_up = GiveUpPush(*live, fence);
      if (given_up.empty()) continue;
    }
    if (parts_.pushes.HasUnstored(fence.attempt.owner) && IsItsEnd(*live, fence)) continue;
    live->PumpStdout(true);
    live->Flush();
    const bool failed = exit.exit_code != 0 || exit.signal != 0;
    ReachFailpoint("worker.exit.before_report");
    Feed(input::Drained{fence, live->spool().last_seq(),
                        WithOutOfMemory(live->LastError(exit), parts_.gpus.UseOf(fence)),
                        live->said_suspended(),
                        failed ? FindPatterns(live->dir().path, live->body().log_patterns)
                               : std::vector<uint32_t>{},
                        given_up.empty() ? live->WhatWasRefused() : given_up});
  }
}

}  // namespace rt::worker
