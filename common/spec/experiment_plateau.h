// A stop rule that ends a search whose best results no longer change: the standard deviation of the
// `top` best values of a metric is at most a bound, after each of the last `patience` results. The
// rule of Ray's ExperimentPlateauStopper, whose names and defaults it has: it compares results, so
// that one trial may have several of the best values. A result that a trial repeats after a restart
// counts once, which is the rule's only difference from Ray's. The head keeps the best values of
// each experiment that has the rule, and Apply extends them from ReportsAccepted. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/fields.h"
#include "common/base/json.h"

namespace rt {

struct ExperimentPlateauRule {
  std::string metric;  // Empty: there is no rule.
  double std = 0.001;
  uint32_t top = 10;      // So many values, the best ones, are compared; 2 or more.
  uint32_t patience = 0;  // Results in a row after which the values agree; 0 means the same as 1.
  bool at_most = false;   // Better is less.

  bool is_given() const { return !metric.empty(); }
};

// What the rule remembers of the results of an experiment.
struct BestValues {
  std::vector<double> values;  // The best one first; as many as the rule compares, at most.
  uint64_t agreed = 0;         // Results in a row, up to the newest one, after which they agree.
  RT_FIELDS(BestValues, values, agreed);
};

// The best values after more results, in their order. A result that is NaN is none of the best.
BestValues Extended(const ExperimentPlateauRule& rule, BestValues best,
                    const std::vector<double>& results);
// Whether the search is to end after the newest result.
bool IsPlateau(const ExperimentPlateauRule& rule, const BestValues& best);

// What is written under stop/experiment_plateau, and its text in the journal. `metric` and
// `minimises` are those of the experiment, for what is left out. Errors carry the path below
// `path`.
absl::StatusOr<ExperimentPlateauRule> ParseExperimentPlateau(const Json& json,
                                                             const std::string& path,
                                                             const std::string& metric,
                                                             bool minimises);
Json NormalExperimentPlateau(const ExperimentPlateauRule& rule);
ExperimentPlateauRule ExperimentPlateauFromNormal(const Json& json);

}  // namespace rt
