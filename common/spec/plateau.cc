#include "common/spec/plateau.h"

#include <algorithm>
#include <cmath>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

absl::StatusOr<bool> ReadMode(const Json& json, const std::string& path, const PlateauRule& rule,
                              const std::string& metric, bool minimises) {
  const Json* mode = json.Find("mode");
  if (mode == nullptr || mode->is_null()) {
    if (rule.metric_threshold.has_value() && rule.metric != metric)
      return SpecError(path + "/metric_threshold", "needs the mode of '" + rule.metric + "'",
                       "add mode: max or min");
    return minimises;
  }
  if (*mode != Json("max") && *mode != Json("min"))
    return SpecError(path + "/mode", "must be max or min");
  return *mode == Json("min");
}

}  // namespace

double Deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (double value : values) sum += value - values.front();
  const double mean = sum / count;
  for (double value : values) {
    const double distance = value - values.front() - mean;
    squares += distance * distance;
  }
  return std::sqrt(squares / count);
}

PlateauWindow Extended(const PlateauRule& rule, const PlateauWindow& window, uint32_t attempt,
                       uint32_t generation, const std::vector<double>& values) {
  PlateauWindow more{.attempt = attempt, .generation = generation};
  if (window.attempt == attempt && window.generation == generation) more = window;
  more.count += values.size();
  more.values.insert(more.values.end(), values.begin(), values.end());
  if (more.values.size() > rule.num_results)
    more.values.erase(more.values.begin(), more.values.end() - rule.num_results);
  return more;
}

bool IsPlateau(const PlateauRule& rule, const PlateauWindow& window) {
  if (window.count < rule.grace_period || window.values.size() < rule.num_results) return false;
  const double newest = window.values.back();
  if (rule.metric_threshold.has_value() &&
      !(rule.at_most ? newest <= *rule.metric_threshold : newest >= *rule.metric_threshold))
    return false;
  return Deviation(window.values) <= rule.std;
}

absl::Status ReadPlateauMetric(const Json& json, const std::string& path, std::string& metric) {
  if (const Json* name = json.Find("metric")) {
    if (!name->is_string() || name->AsString().empty())
      return SpecError(path + "/metric", "must be the name of a reported value");
    metric = name->AsString();
  }
  if (metric.empty())
    return SpecError(path, "needs the name of a reported value", "add metric: NAME");
  return absl::OkStatus();
}

absl::Status ReadPlateauStd(const Json& json, const std::string& path, double& std) {
  const Json* value = json.Find("std");
  if (value == nullptr) return absl::OkStatus();
  if (!value->HasDouble() || !(value->AsDouble() >= 0) || !std::isfinite(value->AsDouble()))
    return SpecError(path + "/std", "must be a number of 0 or more");
  std = value->AsDouble();
  return absl::OkStatus();
}

absl::Status ReadPlateauCount(const Json& json, const std::string& key, const std::string& path,
                              uint32_t lower, uint32_t upper, uint32_t& out) {
  const Json* value = json.Find(key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_int() || value->AsInt() < lower || value->AsInt() > upper)
    return SpecError(path + "/" + key, "must be a whole number between " + std::to_string(lower) +
                                           " and " + std::to_string(upper));
  out = static_cast<uint32_t>(value->AsInt());
  return absl::OkStatus();
}

absl::StatusOr<PlateauRule> ParsePlateau(const Json& json, const std::string& path,
                                         const std::string& metric, bool minimises) {
  static const std::vector<std::string> known = {"metric",       "std",  "num_results",
                                                 "grace_period", "mode", "metric_threshold"};
  RT_RETURN_IF_ERROR(CheckKeys(json, known, path));
  PlateauRule rule{.metric = metric};
  RT_RETURN_IF_ERROR(ReadPlateauMetric(json, path, rule.metric));
  RT_RETURN_IF_ERROR(ReadPlateauStd(json, path, rule.std));
  RT_RETURN_IF_ERROR(
      ReadPlateauCount(json, "num_results", path, 1, limits::kPlateauResultsMax, rule.num_results));
  RT_RETURN_IF_ERROR(
      ReadPlateauCount(json, "grace_period", path, 0, UINT32_MAX, rule.grace_period));
  if (const Json* bound = json.Find("metric_threshold"); bound != nullptr && !bound->is_null()) {
    if (!bound->is_number() || std::isnan(bound->AsDouble()))
      return SpecError(path + "/metric_threshold", "must be a number");
    rule.metric_threshold = bound->AsDouble();
  }
  RT_ASSIGN_OR_RETURN(rule.at_most, ReadMode(json, path, rule, metric, minimises));
  return rule;
}

Json NormalPlateau(const PlateauRule& rule) {
  Json json = Json::MakeObject({{"metric", rule.metric},
                                {"std", rule.std},
                                {"num_results", rule.num_results},
                                {"grace_period", rule.grace_period},
                                {"at_most", rule.at_most}});
  if (rule.metric_threshold.has_value()) json.Set("metric_threshold", *rule.metric_threshold);
  return json;
}

PlateauRule PlateauFromNormal(const Json& json) {
  PlateauRule rule;
  rule.metric = json.GetString("metric");
  rule.std = json.GetDouble("std", rule.std);
  rule.num_results = static_cast<uint32_t>(
      std::clamp<int64_t>(json.GetInt("num_results", 4), 1, limits::kPlateauResultsMax));
  rule.grace_period =
      static_cast<uint32_t>(std::clamp<int64_t>(json.GetInt("grace_period", 4), 0, UINT32_MAX));
  rule.at_most = json.GetBool("at_most");
  if (const Json* bound = json.Find("metric_threshold"); bound != nullptr && bound->HasDouble())
    rule.metric_threshold = bound->AsDouble();
  return rule;
}

}  // namespace rt
