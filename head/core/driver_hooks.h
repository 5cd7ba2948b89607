// Driver hooks: what the user wrote in Python (searchers, schedulers, stoppers, callbacks) runs in
// the driver, which reads the journal's records of its experiment and answers them in order. An
// open question is state: a missing trial, an undecided row. A driver that is away delays only what
// waits for an answer; when it comes back, the questions are still open.
#pragma once

#include <cstdint>
#include <vector>

#include "head/core/core.h"

namespace rt {

// The trials whose configuration the driver is asked for now, by number.
std::vector<uint32_t> AskedNumbers(const World& world, ExperimentId id);
// The trial is to be cloned, and its driver is asked with which configuration.
bool HasOpenClone(const Trial& trial);
// Nothing was heard of the experiment's driver for limits::kDriverAwayAfter, or since its job
// ended.
bool IsDriverAway(const Core& core, ExperimentId id, Millis now);
// The function in which the driver has been for a while; null: it is in none, or it is away.
const DriverCall* FindDriverCall(const Core& core, ExperimentId id, Millis now);

}  // namespace rt
