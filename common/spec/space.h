// A search space: a configuration tree in which some leaves are variables with a domain. Parsed
// from one JSON form, which YAML files and the Python package both produce:
//   {"lr": {"loguniform": [1e-4, 0.1]}, "layers": {"choice": [1, 2, 4]}, "net": {"width": 64},
//    "seed": {"grid": [1, 2, 3]}, "raw": {"constant": {"choice": [1]}},
//    "momentum": {"uniform": [0, 1], "if": {"optimizer": ["sgd", "rmsprop"]}},
//    "net": {"choice": [{"kind": "mlp", "width": {"randint": [8, 64]}}, {"kind": "linear"}]}}
// A map with exactly one key that names a primitive is a variable; "constant" escapes. A variable
// or a map with "if" exists only in configurations whose other parameters have these values, or lie
// in {">=": n, "<=": n}. A variable inside a value of a choice exists where that value is chosen.
// Semantics are those of Ray Tune's primitives, but quantised ones include their upper bound.
#pragma once

#include <cmath>
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

// What another variable must be.
struct Condition {
  size_t variable = 0;  // In Space::variables; it stands before the variable that needs it.
  // Of a choice or a grid: places in its values, any of them. Empty: the bounds decide.
  std::vector<size_t> chosen = {};
  double at_least = -HUGE_VAL, at_most = HUGE_VAL;
};

struct Variable {
  std::vector<PathStep> path;
  Domain domain;
  // It exists where all of them hold. Those of the variables that they name are among them.
  std::vector<Condition> conditions = {};
  // The path as indexes, of members in objects and of items in arrays, once the choices that it is
  // inside of are placed.
  std::vector<size_t> at = {};
};

// A member of an object that is left out of configurations in which its conditions do not hold. It
// has a place where the choices hold that it is inside of.
struct OptionalMember {
  std::vector<PathStep> path;
  std::vector<Condition> inside, conditions;
  std::vector<size_t> at = {};
};

struct Space {
  // Constants in place, null where a variable goes. So are the values of a choice that has
  // variables inside.
  Json skeleton = Json::MakeObject();
  // Those that others depend on first, and then by path. Variables of one path never exist
  // together.
  std::vector<Variable> variables;
  std::vector<OptionalMember> optional = {};
  size_t grid_points = 1;  // Product of the grids' sizes.

  bool IsConditional() const;  // Whether some variables exist in some configurations only.
};

// What was drawn for a variable.
struct Drawn {
  Json value;
  size_t place = 0;  // Of a choice or a grid: in its values; its size for any other value.
};

// "choice", "grid", "loguniform", …: what the one key of a variable may be.
const std::vector<std::string>& DistributionNames();
// "net/width/0".
std::string PathText(const std::vector<PathStep>& path);
// Errors name the path below `path` ("space/lr") and what was wrong.
absl::StatusOr<Space> ParseSpace(const Json& json, std::string_view path);
// Fills in `at` of a variable or an optional member; the variables of its conditions are in `space`
// already. False: there is no place for it.
bool Locate(const Space& space, const std::vector<PathStep>& path,
            const std::vector<Condition>& conditions, std::vector<size_t>& at);
// Whether it holds where its variable has this value, at this place of a choice or a grid.
bool Holds(const Condition& condition, const Json& value, size_t place);
// Whether all of them hold. `drawn` has an entry for each variable that they name.
bool Hold(const std::vector<Condition>& conditions, const std::vector<Drawn>& drawn);
// The configuration: variables in place, and without what does not exist. `drawn` has an entry for
// each variable, also for those that do not exist.
Json ConfigurationOf(const Space& space, const std::vector<Drawn>& drawn);
// Which value of a choice or a grid a configuration has at that variable; its size when none.
size_t PlaceOfValue(const Space& space, size_t variable, const Json& value);
// The value at a path; null when there is none.
const Json* ValueAtPath(const Json& tree, const std::vector<PathStep>& path);
// Puts `value` where the variable is, in a copy of the skeleton.
void PlaceValue(Json& tree, const Variable& variable, Json value);

}  // namespace rt
