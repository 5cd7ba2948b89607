// How many nodes of each pool the waiting requests need beyond those that are there or on their
// way: first fit, in the order in which the requests wait. Pure; the caller asks for the nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/spec/packing.h"
#include "common/spec/pool.h"
#include "common/spec/resource_request.h"

namespace rt {

// `count` owners wait, and each asks for this.
struct Demand {
  ResourceRequest wanted;
  size_t count = 0;
};

struct PoolNow {
  PoolSpec spec;
  Resources each;           // What the planner counts on for a new node.
  size_t live = 0;          // Machines that were asked for and are not released.
  size_t pending = 0;       // Of these, those whose node is not ready yet.
  size_t leaving = 0;       // Of these, those whose node drains: min_workers does not count them.
  size_t ending = 0;        // Released, and not known to be gone: max_workers counts them, too.
  bool may_request = true;  // No earlier request is open, and no failure is waited for.
  bool is_hurried = false;  // The upscaling speed does not hold.
};

// New nodes for each pool, in the order of `pools`: at least what min_workers lacks, at most what
// max_workers and the upscaling speed allow. `soon`: what will be free without new nodes, beside
// the pending machines. `max_workers`: machines of all pools together; it holds for min_workers as
// well. The time grows with the shapes and the pools: nodes with the same capacity
// are looked at once.
std::vector<size_t> PlanNewNodes(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon,
                                 const std::vector<Demand>& demands,
                                 std::optional<uint32_t> max_workers = std::nullopt);

// How many requests of one bundle these nodes cannot hold, together with the others.
size_t CountUnmet(std::vector<FreeCapacity> nodes, const std::vector<Demand>& demands);

// An empty node of this size.
FreeCapacity EmptyNode(const Resources& each);

// Whether a pool's nodes could ever hold the request, all of them together.
bool PoolCouldHold(const PoolNow& pool, const ResourceRequest& wanted);

}  // namespace rt
