// A search space: a configuration tree in which some leaves are variables with a domain. Parsed
// from one JSON form, which YAML files and the Python package both produce:
//   {"lr": {"loguniform": [1e-4, 0.1]}, "layers": {"choice": [1, 2, 4]}, "net": {"width": 64},
//    "seed": {"grid": [1, 2, 3]}, "raw": {"constant": {"choice": [1]}}}
// A map with exactly one key that names a primitive is a variable; "constant" escapes.
// Semantics are those of Ray Tune's primitives, but quantised ones include their upper bound.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

struct Domain {
  enum class Kind {
    kUniform,       // [lower, upper)
    kQUniform,      // multiples of q in [lower, upper], both included, uniformly
    kLogUniform,    // exp(U(ln lower, ln upper))
    kQLogUniform,   // multiples of q nearest to a loguniform draw, clamped into [lower, upper]
    kNormal,        // mean, sd
    kQNormal,       // multiples of q nearest to a normal draw
    kRandInt,       // integers in [lower, upper)
    kQRandInt,      // multiples of q in [lower, upper], both included, uniformly
    kLogRandInt,    // floor of a loguniform draw in [lower, upper)
    kQLogRandInt,   // multiples of q nearest to a loguniform draw, in [lower, upper]
    kChoice,        // one of `values`
    kGrid,          // each of `values`: multiplies the number of trials
  };
  Kind kind = Kind::kUniform;
  double lower = 0, upper = 0, q = 0;  // mean and sd for the normal kinds are in lower and upper.
  std::vector<Json> values;
};

// One step into the tree: an object's key or an array's index.
using PathStep = std::variant<std::string, size_t>;

struct Variable {
  std::vector<PathStep> path;
  Domain domain;
  std::vector<size_t> at;  // The path as indexes: of members in objects, of items in arrays.
};

struct Space {
  Json skeleton = Json::MakeObject();  // Constants in place, null where a variable goes.
  std::vector<Variable> variables;     // Sorted by path.
  size_t grid_points = 1;              // Product of the grids' sizes.
};

// "choice", "grid", "loguniform", …: what the one key of a variable may be.
const std::vector<std::string>& DistributionNames();
// "net/width/0".
std::string PathText(const std::vector<PathStep>& path);
// Errors name the path below `path` ("space/lr") and what was wrong.
absl::StatusOr<Space> ParseSpace(const Json& json, std::string_view path);
// Fills in `at`. False: the skeleton has no place for the variable.
bool Locate(const Json& skeleton, Variable& variable);
// Puts `value` where the variable is, in a copy of the skeleton.
void PlaceValue(Json& tree, const Variable& variable, Json value);

}  // namespace rt
