// How the newest rows of trials compare where a search has several objectives or constraints: the
// values of ExperimentSpec::OutcomeKeys become values to minimise, and an order of the trials.
// Trials that keep the constraints come first, front by front (pareto.h); the others follow by how
// much they exceed them, as in Deb, "An efficient constraint handling method for genetic
// algorithms", 2000. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/search/observations.h"
#include "common/spec/experiment_spec.h"

namespace rt {

class Outcomes {
 public:
  explicit Outcomes(const ExperimentSpec& spec);

  // Whether the search has any: otherwise a trial has one value.
  bool Any() const { return !signs_.empty(); }
  // Fills in what was observed. False: the row lacks a number.
  bool Observe(const std::vector<double>& outcome, FinishedTrial& trial) const;
  // Gives each trial that has values its place in the order; the others keep theirs.
  void Order(std::vector<FinishedTrial>& trials) const;

 private:
  std::vector<double> signs_;  // Of the objectives: -1 where more is better.
  std::vector<StopRule> constraints_;
};

// One value for each of these trials, which all have `values`: the largest of the objectives by
// weights that are drawn for trial `number`, plus a part of their sum, each objective in the range
// that the front has. So each trial improves another direction. Source: Knowles, "ParEGO: a hybrid
// algorithm with on-line landscape approximation for expensive multiobjective optimization
// problems", 2006. With one objective, its values scaled.
std::vector<double> CombinedValues(const std::vector<const FinishedTrial*>& trials, uint64_t seed,
                                   uint64_t number);

}  // namespace rt
