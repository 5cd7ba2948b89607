// What `rt plan` says of costs. Prices are those of the cluster file: price_per_hour of a node
// type. Its machines carry it as a label. No cloud is asked for prices. Pure.
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

// Of the machines that the file asks for, by the hour: what is rented at least and at most.
// {"least", "most"}; null when a node type has no price.
Json CostOfPools(const ClusterSpec& spec);

}  // namespace rt
