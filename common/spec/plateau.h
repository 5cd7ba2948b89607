// A stop rule that ends a trial whose metric no longer changes: the standard deviation of its last
// values is at most a bound. The rule of Ray's TrialPlateauStopper, whose names and defaults it
// has. The values are those of one attempt: a trial that is restarted or resized begins to count
// anew, so that rows which are repeated count once. The head keeps the window of each trial where
// the experiment has the rule, and Apply extends it from ReportsAccepted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "common/base/json.h"

namespace rt {

struct PlateauRule {
  std::string metric;  // Empty: there is no rule.
  double std = 0.01;
  uint32_t num_results = 4;   // So many values, the last ones, are compared.
  uint32_t grace_period = 4;  // Of the attempt: no trial is ended before it has so many values.
  // Only a trial whose newest value is this or better is ended.
  std::optional<double> metric_threshold;
  bool at_most = false;  // Better is less.

  bool is_given() const { return !metric.empty(); }
};

// The values of one attempt.
struct PlateauWindow {
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint64_t count = 0;          // All of them.
  std::vector<double> values;  // The last ones, as many as the rule compares.
  RT_FIELDS(PlateauWindow, attempt, generation, count, values);
};

// The window with more values of that attempt, which may be NaN.
PlateauWindow Extended(const PlateauRule& rule, const PlateauWindow& window, uint32_t attempt,
                       uint32_t generation, const std::vector<double>& values);
// Whether the trial is to end after the newest value. A value that is not finite is no plateau.
bool IsPlateau(const PlateauRule& rule, const PlateauWindow& window);

// The standard deviation of one value or more, without rounding where they are equal; NaN if one is
// not finite.
double Deviation(const std::vector<double>& values);

// What is written under stop/plateau, and its text in the journal. `metric` and `minimises` are
// those of the experiment, for what is left out. Errors carry the path below `path`.
absl::StatusOr<PlateauRule> ParsePlateau(const Json& json, const std::string& path,
                                         const std::string& metric, bool minimises);
Json NormalPlateau(const PlateauRule& rule);
PlateauRule PlateauFromNormal(const Json& json);

// Keys of this rule and of that of experiment_plateau.h. A key that is left out keeps its value.
absl::Status ReadPlateauMetric(const Json& json, const std::string& path, std::string& metric);
absl::Status ReadPlateauStd(const Json& json, const std::string& path, double& std);
absl::Status ReadPlateauCount(const Json& json, const std::string& key, const std::string& path,
                              uint32_t lower, uint32_t upper, uint32_t& out);

}  // namespace rt
