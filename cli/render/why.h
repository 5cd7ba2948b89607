// Why a trial or a node is as it is, as sentences for people, from the JSON of `show`. Pure but for
// the clock behind relative ages.
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

// `nodes`: the items of `node list`, for their names.
std::vector<std::string> WhyTrial(const Json& trial, const Json& nodes);
// `pending`: of `status`.
std::vector<std::string> WhyNode(const Json& node, const Json& pending);

}  // namespace rt
