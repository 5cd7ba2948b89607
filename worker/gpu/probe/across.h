// After the all-reduce over the nodes of a gang: the nodes tell each other what they measured, and
// where that is too slow they find the link to blame (links.h). No CUDA here: what measures a pair
// is given, so that tests do without.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "worker/gpu/probe/meeting.h"
#include "worker/gpu/probe/nccl.h"
#include "worker/gpu/probe/report.h"

namespace rt::probe {

// Two nodes that measure together: this node's gpus are the ranks from `first` on.
struct PairOfNodes {
  NcclId id{};  // The same on both.
  int first = 0, ranks = 0;
  uint64_t bytes_max = 0;  // Larger sizes are left out: they would take too long.
};
using MeasurePair = std::function<double(const PairOfNodes&)>;  // GB/s; 0: it failed.

// `id` is a new one of this node's own, `gpus` are those of this node. Fills in the fault, the
// links and the slow ones of `across`, which has been measured. Returns without links when a node
// does not come within `most`, and hangs where NCCL does: the caller has a deadline.
void FindSlowPart(const NodeOfGang& gang, const NcclId& id, int gpus, double min_bus_gbps,
                  std::chrono::milliseconds most, const MeasurePair& measure,
                  AllReduceReport& across);

}  // namespace rt::probe
