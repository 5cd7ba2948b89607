#include "common/algorithms/known_results.h"

#include <algorithm>
#include <cmath>

#include "common/search/given_options.h"

namespace rt {
namespace {

bool LiesWithin(const Domain& domain, const Json& value) {
  using Kind = Domain::Kind;
  const bool is_listed = domain.kind == Kind::kChoice || domain.kind == Kind::kGrid;
  const bool is_unbounded = domain.kind == Kind::kNormal || domain.kind == Kind::kQNormal;
  if (is_listed || is_unbounded || !value.is_number()) return true;  // Encode knows.
  const bool is_open = domain.kind == Kind::kRandInt || domain.kind == Kind::kLogRandInt;
  const double most = is_open ? domain.upper - 1 : domain.upper;
  // A bound that was rounded on its way through a text is still that bound.
  const double slack = 1e-9 * std::max(std::abs(domain.lower), std::abs(domain.upper));
  return value.AsDouble() >= domain.lower - slack && value.AsDouble() <= most + slack;
}

}  // namespace

bool LiesIn(const Encoding& encoding, const Space& space, const Json& config) {
  if (!encoding.Encode(config).has_value()) return false;
  return std::all_of(space.variables.begin(), space.variables.end(), [&](const Variable& each) {
    const Json* value = ValueAtPath(config, each.path);
    return value == nullptr || LiesWithin(each.domain, *value);
  });
}

void EmptyUnusableResults(ExperimentSpec& spec) {
  const Json* evaluated = spec.search.options.Find(kEvaluatedOption);
  if (evaluated == nullptr || !evaluated->is_array() || evaluated->array().empty()) return;
  const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
  if (!encoding.ok()) return;
  Json results = *evaluated;
  for (Json& each : results.array()) {
    const Json* config = each.Find("config");
    if (config != nullptr && !LiesIn(*encoding, spec.space, *config))
      each.Set("config", Json::MakeObject());
  }
  spec.search.options.Set(kEvaluatedOption, std::move(results));
}

std::string UnusedResults(const ExperimentSpec& spec) {
  const Json* evaluated = spec.search.options.Find(kEvaluatedOption);
  if (evaluated == nullptr || !evaluated->is_array() || evaluated->array().empty()) return "";
  const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
  if (!encoding.ok()) return "";
  const Json::Array& all = evaluated->array();
  const auto unused = std::count_if(all.begin(), all.end(), [&](const Json& each) {
    const Json* config = each.Find("config");
    return config != nullptr && !encoding->Encode(*config).has_value();
  });
  if (unused == 0) return "";
  return "search/" + spec.search.name + "/evaluated: " + std::to_string(unused) + " of " +
         std::to_string(all.size()) + " results lie outside the space or lack a parameter, and " +
         "nothing is learned from them";
}

}  // namespace rt
