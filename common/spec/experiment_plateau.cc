#include "common/spec/experiment_plateau.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/plateau.h"

namespace rt {

BestValues Extended(const ExperimentPlateauRule& rule, BestValues best,
                    const std::vector<double>& results) {
  const auto is_better = [&](double a, double b) { return rule.at_most ? a < b : a > b; };
  for (double result : results) {
    std::vector<double>& values = best.values;
    if (!std::isnan(result)) {
      values.insert(std::upper_bound(values.begin(), values.end(), result, is_better), result);
      if (values.size() > rule.top) values.pop_back();
    }
    const bool agree = values.size() == rule.top && Deviation(values) <= rule.std;
    best.agreed = agree ? best.agreed + 1 : 0;
  }
  return best;
}

bool IsPlateau(const ExperimentPlateauRule& rule, const BestValues& best) {
  return best.agreed > 0 && best.agreed >= rule.patience;
}

absl::StatusOr<ExperimentPlateauRule> ParseExperimentPlateau(const Json& json,
                                                             const std::string& path,
                                                             const std::string& metric,
                                                             bool minimises) {
  static const std::vector<std::string> known = {"metric", "std", "top", "patience", "mode"};
  RT_RETURN_IF_ERROR(CheckKeys(json, known, path));
  ExperimentPlateauRule rule{.metric = metric, .at_most = minimises};
  RT_RETURN_IF_ERROR(ReadPlateauMetric(json, path, rule.metric));
  RT_RETURN_IF_ERROR(ReadPlateauStd(json, path, rule.std));
  RT_RETURN_IF_ERROR(ReadPlateauCount(json, "top", path, 2, limits::kPlateauResultsMax, rule.top));
  RT_RETURN_IF_ERROR(ReadPlateauCount(json, "patience", path, 0, UINT32_MAX, rule.patience));
  const Json* mode = json.Find("mode");
  if (mode == nullptr || mode->is_null()) {
    if (rule.metric == metric) return rule;
    return SpecError(path, "needs the mode of '" + rule.metric + "'", "add mode: max or min");
  }
  if (*mode != Json("max") && *mode != Json("min"))
    return SpecError(path + "/mode", "must be max or min");
  rule.at_most = *mode == Json("min");
  return rule;
}

Json NormalExperimentPlateau(const ExperimentPlateauRule& rule) {
  return Json::MakeObject({{"metric", rule.metric},
                           {"std", rule.std},
                           {"top", rule.top},
                           {"patience", rule.patience},
                           {"at_most", rule.at_most}});
}

ExperimentPlateauRule ExperimentPlateauFromNormal(const Json& json) {
  ExperimentPlateauRule rule;
  rule.metric = json.GetString("metric");
  rule.std = json.GetDouble("std", rule.std);
  rule.top = static_cast<uint32_t>(
      std::clamp<int64_t>(json.GetInt("top", rule.top), 2, limits::kPlateauResultsMax));
  rule.patience = static_cast<uint32_t>(
      std::clamp<int64_t>(json.GetInt("patience", rule.patience), 0, UINT32_MAX));
  rule.at_most = json.GetBool("at_most");
  return rule;
}

}  // namespace rt
