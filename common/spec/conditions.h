// How ParseSpace finds what the conditions of a space refer to: a step of space.cc, once all
// variables are known. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// {"if": {name: wanted}} as it is written.
struct PendingCondition {
  std::string name;   // The path of a parameter.
  Json wanted;        // A value, a list of values, or {">=": n, "<=": n}.
  std::string where;  // For errors.
};

// Adds to each variable and each optional member what its own list says, with the conditions of the
// parameters that these need, and brings the variables into the order of Space. InvalidArgument, by
// the condition's path: no such parameter, a value that it never has, or a circle.
absl::Status ResolveConditions(const std::vector<std::vector<PendingCondition>>& of_variables,
                               const std::vector<std::vector<PendingCondition>>& of_optional,
                               Space& space);

}  // namespace rt
