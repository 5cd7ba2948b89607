// What machines are wanted for: requests that wait for nodes, those of attempts that are about to
// lose theirs, and what request_resources asks for. A const look at the core; pools.cc hands it to
// the planner.
#pragma once

#include <optional>
#include <vector>

#include "head/autoscale/planner.h"
#include "head/core/core.h"

namespace rt {

struct NodeDemand {
  std::vector<Demand> requests;  // In the order in which they are looked at.
  // What they will have without new nodes, beside machines that are on their way.
  std::vector<FreeCapacity> soon;
};

// An attempt on a draining node asks for nodes again before it ends, unless it fits on what is free
// now: its replacement is on its way while it saves.
NodeDemand DemandOf(const Core& core, Millis now);

// What request_resources asks for: the cluster is to be able to hold it at once, whatever runs.
// The largest first.
std::vector<Demand> AskedOf(const State& state);
// Of one size that the nodes that are there cannot hold, beside the larger ones.
std::optional<ResourceRequest> FirstUnmet(const Core& core);
// New nodes for that, in the order of `pools`, and for min_workers; zeros while nothing is asked
// for. The upscaling speed does not hold.
std::vector<size_t> PlanAsked(const Core& core, std::vector<PoolNow> pools);

// Which nodes can be released without that what was asked for fits no longer.
class AskedNodes {
 public:
  explicit AskedNodes(const Core& core);
  // Whether the others suffice; if so, they have to do without it from here on.
  bool TrySpare(NodeId node);
  // So many of the bundles the nodes that are there cannot hold.
  size_t unmet() const { return unmet_; }

 private:
  std::vector<Demand> asked_;
  std::vector<FreeCapacity> nodes_;  // As if nothing ran there.
  size_t unmet_ = 0;
};

}  // namespace rt
