#include "common/spec/space_check.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

using Kind = Domain::Kind;

// Between these magnitudes the width of a range, a draw many deviations from its mean, and the half
// of a step are numbers of full precision.
constexpr double kSmallest = 1e-300;
constexpr double kLargest = 1e300;
// Beyond it the whole numbers have gaps, and with them the multiples of q.
constexpr double kStepsMax = 0x1p53;
// In standard deviations; a draw from the normal distribution lies nearer to the mean.
constexpr double kNormalReach = 10;

bool IsNumber(Kind kind) { return kind != Kind::kChoice && kind != Kind::kGrid; }
bool IsNormal(Kind kind) { return kind == Kind::kNormal || kind == Kind::kQNormal; }
bool IsLog(Kind kind) {
  return kind == Kind::kLogUniform || kind == Kind::kQLogUniform || kind == Kind::kLogRandInt ||
         kind == Kind::kQLogRandInt;
}
bool IsInteger(Kind kind) {
  return kind == Kind::kRandInt || kind == Kind::kQRandInt || kind == Kind::kLogRandInt ||
         kind == Kind::kQLogRandInt;
}

absl::Status CheckDomain(const Domain& domain, const std::string& path) {
  if (!IsNumber(domain.kind)) return absl::OkStatus();
  const double reach = std::max(std::abs(domain.lower), std::abs(domain.upper));
  if (reach > kLargest)
    return SpecError(path, "a number above 1e300 cannot be drawn from: sums with it overflow",
                     "use another unit");
  if (IsLog(domain.kind) && domain.lower < kSmallest)
    return SpecError(path,
                     "the lower bound of a logarithmic range must be 1e-300 or more: "
                     "below it a number loses its precision",
                     "use another unit");
  if (domain.q == 0) return absl::OkStatus();
  if (domain.q < kSmallest)
    return SpecError(path, "q must be 1e-300 or more: below it a number loses its precision",
                     "use another unit");
  const double farthest =
      IsNormal(domain.kind) ? std::abs(domain.lower) + kNormalReach * domain.upper : reach;
  if (farthest / domain.q <= kStepsMax) return absl::OkStatus();
  return SpecError(path,
                   "q is too small: a number of 64 bits keeps at most 2^53 (9e15) multiples "
                   "of it apart, and the range reaches beyond",
                   "raise q, or leave it out");
}

bool IsOfPython(const Json& value) {
  return value.is_string() &&
         (value.AsString().starts_with("py:") || value.AsString().starts_with("pickle:"));
}

// The largest value of a variable with bounds: Ray's randint excludes its upper one.
double LargestOf(const Domain& domain) {
  const bool is_open = domain.kind == Kind::kRandInt || domain.kind == Kind::kLogRandInt;
  return is_open ? domain.upper - 1 : domain.upper;
}

// "from 0.1 to 5", of a variable that is a number.
std::string RangeText(const Domain& domain) {
  return "from " + FormatDouble(domain.lower) + " to " + FormatDouble(LargestOf(domain));
}

// What is wrong with the value of a variable; "": nothing.
std::string ProblemOf(const Domain& domain, const Json& value) {
  if (value.is_double() && !std::isfinite(value.AsDouble())) return "must be a finite number";
  if (!IsNumber(domain.kind) || IsOfPython(value)) return "";
  if (!value.is_number())
    return IsInteger(domain.kind) ? "must be a whole number" : "must be a number";
  if (IsInteger(domain.kind) && value.AsDouble() != std::floor(value.AsDouble()))
    return "must be a whole number";
  return "";
}

// Bounds between which the number that decides never lies.
absl::Status CheckConditions(const Space& space, const Variable& variable) {
  for (const Condition& condition : variable.conditions) {
    const Variable& decides = space.variables[condition.variable];
    if (!condition.chosen.empty() || !IsNumber(decides.domain.kind)) continue;
    const bool is_beyond =
        !IsNormal(decides.domain.kind) && condition.at_least > LargestOf(decides.domain);
    if (condition.at_least <= condition.at_most && !is_beyond) continue;
    const std::string range = IsNormal(decides.domain.kind) ? "" : RangeText(decides.domain);
    return SpecError("space/" + PathText(variable.path),
                     "never exists: its condition is not met by any value of '" +
                         Excerpt(PathText(decides.path)) + "'",
                     range.empty() ? "" : "its range is " + range);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDraws(const Space& space) {
  for (const Variable& variable : space.variables) {
    RT_RETURN_IF_ERROR(CheckDomain(variable.domain, "space/" + PathText(variable.path)));
    RT_RETURN_IF_ERROR(CheckConditions(space, variable));
  }
  return absl::OkStatus();
}

bool IsDrawable(const Domain& domain, const Json& value) {
  if (!ProblemOf(domain, value).empty()) return false;
  if (!IsNumber(domain.kind) || IsNormal(domain.kind) || !value.is_number()) return true;
  // A bound that was rounded on its way through a text is still that bound.
  const double slack = 1e-9 * std::max(std::abs(domain.lower), std::abs(domain.upper));
  return value.AsDouble() >= domain.lower - slack && value.AsDouble() <= LargestOf(domain) + slack;
}

NumberChecker::NumberChecker(const Space& space) {
  for (const Variable& variable : space.variables)
    domains_[PathText(variable.path)].push_back(&variable.domain);
}

absl::Status NumberChecker::Check(const Json& config, const std::string& path,
                                  const std::string& hint, bool learns) const {
  for (const std::string& name : FlatPaths(config)) {
    const auto found = domains_.find(name);
    const Json* value = FindFlat(config, name);
    if (found == domains_.end() || value == nullptr) continue;
    const std::string where = Join({path, name}, "/");
    const std::vector<const Domain*>& known = found->second;
    if (std::all_of(known.begin(), known.end(),
                    [&](const Domain* each) { return !ProblemOf(*each, *value).empty(); }))
      return SpecError(where, ProblemOf(*known.front(), *value) + ", not " + Excerpt(value->Dump()),
                       Join({"give a value such as space/", name, " draws", hint}, ""));
    const bool is_in = std::any_of(known.begin(), known.end(),
                                   [&](const Domain* each) { return IsDrawable(*each, *value); });
    if (learns && !is_in)
      return SpecError(where,
                       FormatDouble(value->AsDouble()) + " lies outside the range of space/" +
                           name + ", " + RangeText(*known.front()),
                       "the search cannot learn from it: widen the range, or leave it out");
  }
  return absl::OkStatus();
}

absl::Status CheckPoints(const Space& space, const Json::Array& points, const std::string& path,
                         bool learns) {
  const NumberChecker checker(space);
  for (size_t i = 0; i < points.size(); ++i)
    RT_RETURN_IF_ERROR(
        checker.Check(points[i], path + "/" + std::to_string(i), ", or leave it out", learns));
  return absl::OkStatus();
}

}  // namespace rt
