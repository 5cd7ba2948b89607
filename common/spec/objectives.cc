#include "common/spec/objectives.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

absl::Status ReadOneMode(const Json& value, const std::string& path, Mode& out) {
  if (!value.is_string() || (value.AsString() != "max" && value.AsString() != "min"))
    return SpecError(path, "must be 'max' or 'min'");
  out = value.AsString() == "max" ? Mode::kMax : Mode::kMin;
  return absl::OkStatus();
}

absl::Status ReadName(const Json& value, const std::string& path, std::string& out) {
  if (!value.is_string()) return SpecError(path, "must be text, or a list of texts");
  if (value.AsString().size() > limits::kNameBytesMax)
    return SpecError(path, "is longer than " + std::to_string(limits::kNameBytesMax) + " bytes");
  if (!IsValidUtf8(value.AsString()) || value.AsString().find('\0') != std::string::npos)
    return SpecError(path, "must be valid UTF-8 without NUL");
  out = value.AsString();
  return absl::OkStatus();
}

absl::Status ReadSeveral(const Json::Array& metrics, const Json* mode, ExperimentSpec& spec) {
  if (metrics.empty() || metrics.size() > limits::kObjectivesMax)
    return SpecError("metric", "must be a text, or a list of 1 to " +
                                   std::to_string(limits::kObjectivesMax) + " texts");
  for (size_t i = 0; i < metrics.size(); ++i) {
    const std::string path = "metric/" + std::to_string(i);
    Objective objective;
    RT_RETURN_IF_ERROR(ReadName(metrics[i], path, objective.metric));
    const auto is_same = [&](const Objective& each) { return each.metric == objective.metric; };
    if (objective.metric.empty()) return SpecError(path, "is empty");
    if (std::any_of(spec.objectives.begin(), spec.objectives.end(), is_same))
      return SpecError(path, "'" + Excerpt(objective.metric) + "' is there already");
    spec.objectives.push_back(std::move(objective));
  }
  if (mode != nullptr && !mode->is_null() && !mode->is_array())
    return SpecError("mode", "must be a list with 'max' or 'min' for each metric");
  if (mode != nullptr && mode->is_array() && mode->array().size() != metrics.size())
    return SpecError("mode",
                     std::to_string(metrics.size()) + " metrics have " +
                         std::to_string(mode->array().size()) + " modes",
                     "give a mode for each metric");
  for (size_t i = 0; mode != nullptr && mode->is_array() && i < metrics.size(); ++i)
    RT_RETURN_IF_ERROR(
        ReadOneMode(mode->array()[i], "mode/" + std::to_string(i), spec.objectives[i].mode));
  spec.metric = spec.objectives.front().metric;
  spec.mode = spec.objectives.front().mode;
  if (spec.objectives.size() == 1) spec.objectives.clear();
  return absl::OkStatus();
}

absl::Status ReadConstraints(const Json& json, ExperimentSpec& spec) {
  const Json* value = json.Find("constraints");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_object())
    return SpecError("constraints", "must be a map of reported values to bounds");
  if (value->object().size() > limits::kObjectivesMax)
    return SpecError("constraints",
                     "at most " + std::to_string(limits::kObjectivesMax) + " are allowed");
  for (const auto& [key, bound] : value->object()) {
    const std::string path = "constraints/" + key;
    const bool is_one = bound.is_object() && bound.object().size() == 1;
    const std::string comparison = is_one ? bound.object().front().first : "";
    if (comparison != "<=" && comparison != ">=")
      return SpecError(path, "must be {\"<=\": number} or {\">=\": number}");
    const Json& threshold = bound.object().front().second;
    if (!threshold.is_number() || !std::isfinite(threshold.AsDouble()))
      return SpecError(path, "must be a number");
    spec.constraints.push_back({key, comparison == "<=", threshold.AsDouble()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadObjectives(const Json& json, ExperimentSpec& spec) {
  const Json* metric = json.Find("metric");
  const Json* mode = json.Find("mode");
  RT_RETURN_IF_ERROR(ReadConstraints(json, spec));
  if (metric != nullptr && metric->is_array()) return ReadSeveral(metric->array(), mode, spec);
  if (metric != nullptr && !metric->is_null())
    RT_RETURN_IF_ERROR(ReadName(*metric, "metric", spec.metric));
  if (!spec.constraints.empty() && spec.metric.empty())
    return SpecError("constraints", "belong to a metric", "add metric: NAME and mode: max or min");
  if (mode == nullptr || mode->is_null()) return absl::OkStatus();
  if (mode->is_array() && mode->array().size() == 1)
    return ReadOneMode(mode->array().front(), "mode/0", spec.mode);
  return ReadOneMode(*mode, "mode", spec.mode);
}

absl::Status CheckObjectives(const ExperimentSpec& spec) {
  const AlgorithmTable& search = *FindTable(AlgorithmKind::kSearch, spec.search.name);
  const AlgorithmTable& scheduler = *FindTable(AlgorithmKind::kScheduler, spec.scheduler.name);
  if (spec.OutcomeKeys().empty()) return absl::OkStatus();
  const std::string what = spec.objectives.empty() ? "constraints" : "several objectives";
  if (search.needs_metric && !search.knows_outcomes)
    return SpecError("search", search.name + " does not know " + what,
                     "use auto, gp, tpe or basic");
  if (scheduler.needs_metric && !spec.objectives.empty())
    return SpecError("scheduler",
                     scheduler.name + " compares trials by one metric, and there are " +
                         std::to_string(spec.objectives.size()),
                     "leave scheduler out, or give one metric");
  return absl::OkStatus();
}

std::vector<std::string> ExperimentSpec::OutcomeKeys() const {
  std::vector<std::string> keys;
  if (objectives.empty() && constraints.empty()) return keys;
  for (const Objective& objective : objectives) keys.push_back(objective.metric);
  if (objectives.empty()) keys.push_back(metric);
  for (const StopRule& rule : constraints) keys.push_back(rule.key);
  return keys;
}

Json ObjectivesJson(const ExperimentSpec& spec) {
  if (spec.objectives.empty()) return Json();
  Json list = Json::MakeArray();
  for (const Objective& each : spec.objectives)
    list.Append(Json::MakeObject(
        {{"metric", each.metric}, {"mode", each.mode == Mode::kMax ? "max" : "min"}}));
  return list;
}

Json ConstraintsJson(const ExperimentSpec& spec) {
  if (spec.constraints.empty()) return Json();
  Json map = Json::MakeObject();
  for (const StopRule& rule : spec.constraints)
    map.Set(rule.key, Json::MakeObject({{rule.at_most ? "<=" : ">=", rule.threshold}}));
  return map;
}

}  // namespace rt
