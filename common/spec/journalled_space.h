// The search space in the normalised form of an experiment (journalled_spec.h). Pure.
#pragma once

#include "common/spec/journalled_reader.h"
#include "common/spec/space.h"

namespace rt {

// False: it is not whole, so that nothing can be drawn from it.
bool SpaceFrom(const Json& json, Warnings& warnings, Space& space);

}  // namespace rt
