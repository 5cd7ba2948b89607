// Whether a trial that has saved is given other resources: the policies of
// common/spec/reallocation.h. The quantities are those of Ray's DistributeResources and
// DistributeResourcesToTopJob: capacity that no trial has is added to the trial that is asked
// about, and capacity that others lack is taken from it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "common/spec/reallocation.h"

namespace rt {

// A trial that runs or waits for nodes.
struct ReallocatedTrial {
  uint32_t number = 0;
  ResourceRequest request;  // What it has, or waits for.
  double score = 0;         // Its newest value of the policy's metric; NaN: it has none.
};

// Cpus and gpus that a trial with `base` grows or shrinks by at once.
Resources ReallocationUnit(const ReallocationSpec& spec, const ResourceRequest& base);
// How often the trial with that request has grown.
int64_t AddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                   const ResourceRequest& request);
// `base`, grown so often.
ResourceRequest WithAddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                               int64_t units);
// How often the trial `number`, one of `trials`, should have grown. `available`: the cpus and gpus
// that the trials have and those that nobody has.
int64_t UnitsFor(const ReallocationSpec& spec, const ResourceRequest& base,
                 const Resources& available, const std::vector<ReallocatedTrial>& trials,
                 uint32_t number);

}  // namespace rt
