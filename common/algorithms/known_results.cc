#include "common/algorithms/known_results.h"

#include <algorithm>

#include "common/search/given_options.h"
#include "common/spec/space_check.h"

namespace rt {
namespace {

// Values of a choice may have parameters of one name, each with its own range.
bool IsDrawableAt(const Space& space, const Variable& variable, const Json& value) {
  if (IsDrawable(variable.domain, value)) return true;
  return space.IsConditional() &&
         std::any_of(space.variables.begin(), space.variables.end(), [&](const Variable& other) {
           return &other != &variable && other.path == variable.path &&
                  IsDrawable(other.domain, value);
         });
}

}  // namespace

bool LiesIn(const Encoding& encoding, const Space& space, const Json& config) {
  if (!encoding.Encode(config).has_value()) return false;
  return std::all_of(space.variables.begin(), space.variables.end(), [&](const Variable& each) {
    const Json* value = ValueAtPath(config, each.path);
    return value == nullptr || IsDrawableAt(space, each, *value);
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
