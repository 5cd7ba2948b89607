// Apply's part about clones: a trial continues from a checkpoint of another one (docs/adr/0033).
// Nothing is decided here.
#pragma once

#include "head/core/state.h"

namespace rt {

void ApplyClone(World& world, ExperimentId experiment, const ClonedTrial& clone, Millis at);

}  // namespace rt
