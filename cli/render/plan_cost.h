// The costs that `rt plan` shows. A node type of the cluster file has its price as price_per_hour,
// and its machines carry the price as a label. No cloud is asked for prices. Pure.
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/spec/resource_request.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

// For each gpu type that the request names, in its order, what one trial costs an hour: its share
// of the cheapest node of that type, by gpus. [{gpu_type, cost_per_hour, nodes}]; null where no
// node of that type has a price. `nodes`: as `rt node list` has them.
Json CostsOfGpuTypes(const ResourceRequest& wanted, const Json& nodes);
// "each costs    H200 at 3.1 an hour, else H100 at 2"; "": the plan names no type.
std::string TextOfGpuTypeCosts(const Json& plan);

// The cost per hour of the fewest and of the most machines that the file allows, as {"least",
// "most"}; null when a node type has no price.
Json CostOfPools(const ClusterSpec& spec);

}  // namespace rt
