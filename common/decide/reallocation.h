// The policies of common/spec/reallocation.h: how many resources a trial gets after it has saved.
// The amounts are those of Ray's DistributeResources and DistributeResourcesToTopJob: a trial gets
// free capacity, and gives up capacity that other trials lack. Pure.
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
// The number of units by which the trial with that request has grown.
int64_t AddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                   const ResourceRequest& request);
// `base`, grown so often.
ResourceRequest WithAddedUnits(const ReallocationSpec& spec, const ResourceRequest& base,
                               int64_t units);
// The number of units by which the trial `number`, one of `trials`, should have grown.
// `available`: the cpus and gpus of these trials, and the free ones.
int64_t UnitsFor(const ReallocationSpec& spec, const ResourceRequest& base,
                 const Resources& available, const std::vector<ReallocatedTrial>& trials,
                 uint32_t number);

}  // namespace rt
