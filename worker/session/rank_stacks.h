// The Python stacks of ranks on this node, for a rank that has waited for them too long: SIGQUIT,
// and what Python's faulthandler then writes to standard error. Ranks that have no handler for that
// signal are left alone. Blocks for up to limits::kStackWait. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/launch/launcher.h"
#include "worker/session/barriers.h"

namespace rt::worker {

// Of at most limits::kStackRanksMax of `ranks`; those that write nothing are left out.
std::vector<RankStack> ReadRankStacks(Launcher& launcher, const AttemptId& attempt,
                                      const std::vector<uint32_t>& ranks);

}  // namespace rt::worker
