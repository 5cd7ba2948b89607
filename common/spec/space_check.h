// What a search space and its first configurations must keep for every search algorithm to draw
// from them. Checked when a user submits; a space in a journal is drawn from as it is.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "common/spec/space.h"

namespace rt {

// InvalidArgument, with the path below "space", where a range has bounds or steps that numbers of
// 64 bits cannot keep apart: a draw would always be the same, infinite or not a number. The same
// for a variable whose condition no draw can meet.
absl::Status CheckDraws(const Space& space);
// Reports whether the variable can have the value. A number must be within the bounds, and whole if
// the variable draws whole numbers. A variable that is no number can have any value, and each
// variable can have a value of Python's ("py:...").
bool IsDrawable(const Domain& domain, const Json& value);

// Checks the values of numeric parameters in configurations. The space must outlive it.
class NumberChecker {
 public:
  explicit NumberChecker(const Space& space);
  // InvalidArgument where `config`, which may lack variables, has something else for a number, but
  // for Python's values of any type ("py:(64, 32)"). `learns`: also where it lies outside the
  // range: a search that learns would take it for the bound, and others run it as it is. `path` is
  // that of the configuration. `hint` says what else the user can do: ", or ..."; or is "".
  absl::Status Check(const Json& config, const std::string& path, const std::string& hint,
                     bool learns) const;

 private:
  // Values of a choice may have parameters of one name, each with its own range.
  std::map<std::string, std::vector<const Domain*>, std::less<>> domains_;
};

// Check of each configuration of a list, whose path is `path`.
absl::Status CheckPoints(const Space& space, const Json::Array& points, const std::string& path,
                         bool learns);

}  // namespace rt
