// Apply's part about clones, where a trial continues from a checkpoint of another one
// (docs/adr/0033), and about trials that get other resources.
// Nothing is decided here.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

void ApplyClone(World& world, ExperimentId experiment, const ClonedTrial& clone, Millis at);
// What the driver was asked about clones, and what it says of resources. `seq`: of the record.
void ApplyAnswer(World& world, const event::Answered& e, uint64_t seq);
// Everything but that it is not paused any more, which is the returned event.
event::TrialResumed ApplyReallocated(World& world, const event::TrialReallocated& e);

}  // namespace rt
