// What this release could not read in the journalled specs of what is not over yet: it continues
// without that, and the log says so when a head starts.
#pragma once

#include "head/core/state.h"

namespace rt {

void LogUnreadSpecs(const World& world);

}  // namespace rt
