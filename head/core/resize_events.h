// The facts about the size of a live attempt (docs/adr/0028). Part of events.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "head/core/facts.h"

namespace rt::event {

// The live generation was asked to save by the deadline, and to end once it has. `members` are
// those of the next generation. When there are more than before, they begin with those of before,
// and the others hold their capacity from here on.
struct AttemptResizeRequested {
  AttemptId attempt;
  std::vector<Member> members;
  Millis save_by = 0;
  RT_FIELDS(AttemptResizeRequested, attempt, members, save_by);
};
// An attempt that is to shrink has not saved in time: it is ended, and the next generation will
// resume from the newest checkpoint that there is.
struct AttemptResizeForced {
  AttemptId attempt;
  RT_FIELDS(AttemptResizeForced, attempt);
};
// It continues as it is, unless it is ending already; capacity that was held for it is free.
struct AttemptResizeGivenUp {
  AttemptId attempt;
  std::string reason;
  RT_FIELDS(AttemptResizeGivenUp, attempt, reason);
};
// The live generation has ended and returned its capacity, and its attempt continues as the
// generation that `attempt` names. It resumes from `checkpoint` (0: from the start): rows of
// earlier generations after it are superseded.
struct AttemptResized {
  AttemptId attempt;
  std::vector<Member> members;
  uint64_t checkpoint = 0;
  RT_FIELDS(AttemptResized, attempt, members, checkpoint);
};

}  // namespace rt::event
