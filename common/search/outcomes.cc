#include "common/search/outcomes.h"

#include <algorithm>
#include <cmath>

#include "common/spec/pareto.h"

namespace rt {
namespace {

// So many trials of one front are equally good; of a larger one, the first have the most space
// around them. TPE takes as many as good ones at most.
constexpr size_t kTogether = 25;
// The places of this many trials are told apart: more than any model compares by order.
constexpr size_t kRanked = 500;

}  // namespace

Outcomes::Outcomes(const ExperimentSpec& spec) : constraints_(spec.constraints) {
  if (spec.OutcomeKeys().empty()) return;
  for (const Objective& objective : spec.objectives)
    signs_.push_back(objective.mode == Mode::kMax ? -1 : 1);
  if (signs_.empty()) signs_.push_back(spec.mode == Mode::kMax ? -1 : 1);
}

bool Outcomes::Observe(const std::vector<double>& outcome, FinishedTrial& trial) const {
  if (outcome.size() != signs_.size() + constraints_.size()) return false;
  if (std::any_of(outcome.begin(), outcome.end(), [](double each) { return std::isnan(each); }))
    return false;
  trial.values.clear();
  for (size_t k = 0; k < signs_.size(); ++k) trial.values.push_back(signs_[k] * outcome[k]);
  trial.violation = 0;
  trial.excesses.clear();
  for (size_t k = 0; k < constraints_.size(); ++k) {
    const StopRule& rule = constraints_[k];
    const double value = outcome[signs_.size() + k];
    const double excess = rule.at_most ? value - rule.threshold : rule.threshold - value;
    trial.excesses.push_back(excess);
    if (excess > 0) trial.violation += excess;
  }
  return true;
}

void Outcomes::Order(std::vector<FinishedTrial>& trials) const {
  std::vector<size_t> kept, broken;
  std::vector<Values> points;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].values.empty()) continue;
    if (trials[i].violation > 0) {
      broken.push_back(i);
    } else {
      kept.push_back(i);
      points.push_back(trials[i].values);
    }
  }
  const std::vector<double> places = PlacesOf(points, signs_.size() == 1 ? 1 : kTogether, kRanked);
  double last = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    trials[kept[i]].value = places[i];
    last = std::max(last, places[i]);
  }
  std::sort(broken.begin(), broken.end(), [&](size_t a, size_t b) {
    return trials[a].violation != trials[b].violation ? trials[a].violation < trials[b].violation
                                                      : trials[a].number < trials[b].number;
  });
  for (size_t i = 0; i < broken.size(); ++i) {
    const bool is_equal = i > 0 && trials[broken[i]].violation == trials[broken[i - 1]].violation;
    trials[broken[i]].value = is_equal ? last : ++last;
  }
}

}  // namespace rt
