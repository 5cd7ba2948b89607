// What is known of a node of a gang over nodes when the rt-probes of the gang meet. The probe sends
// and reports it, the worker reads it there. Header only: the probe links nothing of the worker.
#pragma once

namespace rt::worker {

// Sent and written as a number: the values never change.
enum class NodeState : unsigned {
  kWell = 0,
  kFault = 1,   // A gpu there is at fault.
  kError = 2,   // Its test could not be made.
  kAbsent = 3,  // It has not come in time.
  kWithoutNccl = 4,
};

}  // namespace rt::worker
