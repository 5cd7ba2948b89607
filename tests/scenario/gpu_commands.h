// The gpus of a story's node.
//   gpus NAME [INDEX NUMBER|- FAULT]   they are named GPU-0 and so on; of one the fault, and the
//                                      number of its quarantine; "by_hand FAULT": of one that
//                                      only a person ends
//   clear NAME GPU [FOUND]             a person, or a probe that found this, ends the quarantine
//   faulty NAME GPU WHAT               a probe found this fault, and the gpu is to be quarantined
#pragma once

#include <istream>

#include "head/core/facts.h"
#include "head/core/inputs.h"

namespace rt::scenario {

// What follows "gpus NAME".
void NameGpus(NodeInventory& inventory, std::istream& words);
// What follows "clear NAME".
input::UndrainNode ClearFrom(NodeId node, std::istream& words);
// What follows "faulty NAME".
input::QuarantineGpu FaultFrom(NodeId node, std::istream& words);

}  // namespace rt::scenario
