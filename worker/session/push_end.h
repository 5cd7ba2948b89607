// When an attempt that has ended waits no longer for what it saved to be pushed. Pure.
#pragma once

#include "common/base/limits.h"
#include "worker/core/worker_core.h"

namespace rt::worker {

enum class PushEnd {
  kWait,         // Its end is reported once its checkpoints are committed.
  kUnwanted,     // The head commits nothing of it any more.
  kStoppedLong,  // It was stopped, for good, and the push still takes time.
};

// `resumes`: it was stopped to resume elsewhere from what it saved. `ended_for`: since its end.
inline PushEnd DecidePushEnd(const AttemptState& attempt, bool resumes, Millis ended_for) {
  if (!attempt.wanted) return PushEnd::kUnwanted;
  const bool is_late = attempt.stop && !resumes && ended_for >= limits::kPushAfterStop;
  return is_late ? PushEnd::kStoppedLong : PushEnd::kWait;
}

}  // namespace rt::worker
