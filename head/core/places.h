// Where the bundles of a request would go: all of them, or nowhere. One bundle goes to the node
// that it fits best, found in the index without a scan; a gang looks at every node that may take
// work, biggest bundles first.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "common/spec/pool.h"
#include "head/core/core.h"
#include "head/core/devices.h"

namespace rt {

// One member for each bundle, by rank; nullopt while the nodes that are not avoided lack capacity.
std::optional<std::vector<Member>> FindPlaces(const Core& core, const ResourceRequest& wanted,
                                              Millis now, const std::set<NodeId>& avoided = {});
// How many of the bundles fit now; for texts.
size_t CountPlaces(const Core& core, const ResourceRequest& wanted, Millis now);
// How many such requests of one bundle fit now, up to `most`; 0 for several bundles. For gpus that
// are shared it is a guess.
size_t CountFree(const Core& core, const ResourceRequest& wanted, Millis now, size_t most);
// Whether the request fits on empty nodes of these sizes.
bool CouldFit(const std::vector<Resources>& nodes, const ResourceRequest& wanted);
// Those of the nodes that may take work.
std::vector<FreeCapacity> CapacitiesNow(const Core& core, Millis now);
// Those of nodes that are only silent for now: they may take work again without anybody's doing.
std::vector<FreeCapacity> CapacitiesSoon(const Core& core, Millis now);
// As if an attempt with these members had been placed there, or had ended.
void TakeCapacity(std::vector<FreeCapacity>& capacities, const ResourceRequest& request,
                  const std::vector<Member>& members);
void ReturnCapacity(std::vector<FreeCapacity>& capacities, const ResourceRequest& request,
                    const std::vector<Member>& members);
// Places all bundles on nodes that are not avoided, or none.
std::optional<std::vector<Member>> PutInto(std::vector<FreeCapacity>& capacities,
                                           const ResourceRequest& wanted,
                                           const std::set<NodeId>& avoided);
// What is free on a node; of its gpus, the largest request that can be met (devices.h).
Resources FreeOn(const World& world, NodeId node);

}  // namespace rt
