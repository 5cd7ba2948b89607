// How many trials the nodes of a cluster, were they empty, would run side by side: what
// `rt plan` says, by the arithmetic of the head (common/spec/packing.h). Pure.
#pragma once

#include <cstdint>

#include "common/base/json.h"
#include "common/spec/resource_request.h"

namespace rt {

// More side by side are not counted.
inline constexpr int64_t kSideBySideMax = 10'000;

// `nodes`: the items of `node list`; those that take work count, each with {node, pool, trials,
// bundles}. Of a trial with several bundles `trials` says how many of them have a bundle there, and
// at most `trials_max` of them are placed; trials of one bundle fill each node.
struct SideBySide {
  Json places = Json::MakeArray();
  int64_t trials = 0;
};
SideBySide CountSideBySide(const Json& nodes, const ResourceRequest& wanted, int64_t trials_max);

}  // namespace rt
