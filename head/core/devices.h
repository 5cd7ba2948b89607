// The gpus of one node as placement sees them: how much of each is free (packing.h says which of
// them a request gets). A node that names no devices has unnamed ones, numbered from 0.
#pragma once

#include <vector>

#include "common/spec/packing.h"
#include "head/core/state.h"

namespace rt {

// The healthy ones, ascending by index; also those with nothing free.
std::vector<FreeDevice> FreeDevices(const Node& node, const NodeIndex& index);

}  // namespace rt
