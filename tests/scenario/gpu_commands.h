// The gpus of a story's node.
//   gpus NAME [INDEX NUMBER|- FAULT]   they are named GPU-0 and so on; of one the fault, and the
//                                      number of its quarantine
//   clear NAME GPU                     a person ends the quarantine of a gpu
#pragma once

#include <istream>

#include "head/core/facts.h"

namespace rt::scenario {

// What follows "gpus NAME".
void NameGpus(NodeInventory& inventory, std::istream& words);

}  // namespace rt::scenario
