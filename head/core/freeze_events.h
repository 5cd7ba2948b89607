// The facts about freezes of a live attempt (docs/adr/0043). Part of events.h.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt::event {

// An attempt that was asked to save and end is to be frozen instead of ended once it has saved. Its
// program stops where it is, and keeps its memory. `round` counts the freezes of the attempt.
struct AttemptFreezeRequested {
  AttemptId attempt;
  uint32_t round = 0;
  RT_FIELDS(AttemptFreezeRequested, attempt, round);
};
// Its node has frozen it: its cpus and gpus are free, its memory and custom resources are not. Its
// owner waits to be placed again, unless it is paused.
struct AttemptFrozen {
  AttemptId attempt;
  RT_FIELDS(AttemptFrozen, attempt);
};
// It has its cpus and gpus again, the same ones, and its program continues.
struct AttemptThawed {
  AttemptId attempt;
  RT_FIELDS(AttemptThawed, attempt);
};
// It is not frozen: it saves and ends, as it was asked to before.
struct AttemptFreezeGivenUp {
  AttemptId attempt;
  std::string reason;
  RT_FIELDS(AttemptFreezeGivenUp, attempt, reason);
};

}  // namespace rt::event
