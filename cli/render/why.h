// Why a trial or a node is as it is, as sentences for people, from the JSON of `show`. Pure but for
// the clock behind relative ages.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

// `nodes`: the items of `node list`, for their names.
std::vector<std::string> WhyTrial(const Json& trial, const Json& nodes);
// "trial 2/0 (attempt 1)" for the "t2-0.a1.r0" of a node's JSON.
std::string RunText(const std::string& fence);
// `pending`: of `status`.
std::vector<std::string> WhyNode(const Json& node, const Json& pending);

}  // namespace rt
