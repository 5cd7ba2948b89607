// What `rt plan` says: what a file would start, as one JSON object, and that as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/spec/experiment_spec.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

// `nodes`: the items of `node list` of the cluster that it would run on; null when there is none.
Json PlanExperiment(const ExperimentSpec& spec, const Json& nodes);
// `cpus`: of this machine, for a local cluster.
Json PlanCluster(const ClusterSpec& spec, int cpus);
std::string RenderPlan(const Json& plan);

}  // namespace rt
