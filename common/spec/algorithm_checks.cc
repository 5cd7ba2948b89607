#include "common/spec/algorithm_checks.h"

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/space_check.h"

namespace rt {

absl::Status CheckMutated(const ExperimentSpec& spec) {
  const AlgorithmTable& table = *FindTable(AlgorithmKind::kScheduler, spec.scheduler.name);
  if (spec.driver.explores && !table.driver_may_explore)
    return SpecError("driver/explores", "the scheduler " + table.name + " makes no clones for it",
                     "use pbt");
  const bool is_drawn_here = !spec.driver.searches && !spec.space.skeleton.object().empty();
  std::vector<std::string> known;
  for (const auto& [parameter, value] : spec.space.skeleton.object()) known.push_back(parameter);
  for (const AlgorithmOption& option : table.options) {
    if (option.type != AlgorithmOption::Type::kMutations) continue;
    const std::string path = "scheduler/" + table.name + "/" + option.name;
    const Json& mutations = *spec.scheduler.options.Find(option.name);
    if (mutations.object().empty() && !spec.driver.explores)
      return SpecError(path, "names the parameters that are mutated, at least one",
                       "for example {lr: {loguniform: [1e-4, 1e-1]}}");
    for (const auto& [name, mutation] : mutations.object())
      if (is_drawn_here && spec.space.skeleton.Find(name) == nullptr)
        return SpecError(Join({path, name}, "/"),
                         "the space has no parameter '" + EscapeControl(name) + "'",
                         DidYouMean(name, known));
  }
  return absl::OkStatus();
}

absl::Status CheckPointsOf(const Json& json, const ExperimentSpec& spec) {
  const Json::Array& points = PointsOf(spec);
  if (points.empty()) return absl::OkStatus();
  const std::string& name = json.Find("search")->object().front().first;
  const bool learns = FindTable(AlgorithmKind::kSearch, spec.search.name)->needs_metric;
  return CheckPoints(spec.space, points, "search/" + name + "/points", learns);
}

absl::Status CheckEvaluated(const Json& json, const ExperimentSpec& spec) {
  const Json* evaluated = spec.search.options.Find("evaluated");
  if (evaluated == nullptr || evaluated->array().empty()) return absl::OkStatus();
  const std::string& name = json.Find("search")->object().front().first;
  const std::vector<std::string> keys = spec.OutcomeKeys();
  const NumberChecker checker(spec.space);
  for (size_t i = 0; i < evaluated->array().size(); ++i) {
    const std::string path = "search/" + name + "/evaluated/" + std::to_string(i);
    if (const Json* config = evaluated->array()[i].Find("config"); config != nullptr)
      RT_RETURN_IF_ERROR(
          checker.Check(*config, path + "/config", ", or leave the result out", false));
    const Json& value = *evaluated->array()[i].Find("value");
    const bool is_list = value.is_array();
    if (value.is_null() || (is_list ? value.array().size() == keys.size() : keys.empty())) continue;
    return SpecError(path + "/value", keys.empty()
                                          ? "must be one number"
                                          : "must be a list of " + std::to_string(keys.size()) +
                                                " numbers: of " + Join(keys, ", "));
  }
  return absl::OkStatus();
}

}  // namespace rt
