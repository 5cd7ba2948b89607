// Why something waits, in sentences for people. Computed from the state when they are asked for: no
// decision depends on them.
#pragma once

#include <string>

#include "head/core/draft.h"

namespace rt {

// Empty when the owner does not wait.
Waiting WhyWaiting(const Core& core, const Owner& owner, Millis now);
// "pool worker: 2 machines requested", or why none is; empty when no pool could hold the request.
std::string WhatPoolsDo(const Core& core, const ResourceRequest& wanted, Millis now);
// What the experiment waits for when it waits for its driver, or the function in which its driver
// is, in one sentence; else empty.
std::string WhyAsking(const Core& core, ExperimentId id, Millis now);
// The function of the user's in which a running job has been for a while; else empty.
std::string WhyJobRuns(const Core& core, JobId id, Millis now);
// What WhyAsking says for a trial with an undecided row.
std::string WhyUndecided(const Core& core, const Trial& trial, Millis now);

}  // namespace rt
