#include "common/search/outcomes.h"

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "common/search/elementary.h"
#include "common/spec/pareto.h"

namespace rt {
namespace {

// So many trials of one front are equally good; of a larger one, the first have the most space
// around them. TPE takes as many as good ones at most.
constexpr size_t kTogether = 25;
// The places of this many trials are told apart: more than any model compares by order.
constexpr size_t kRanked = 500;
constexpr uint64_t kWeightStream = 0x77656967687473;
// The part of the sum of the objectives that is added to the largest one.
constexpr double kSumPart = 0.05;
constexpr double kFarAway = 1e6;  // In place of a value that is not finite.

// The least value of each objective, and the width of its range on the front.
struct Range {
  Values least, width;
};

Range RangeOf(const std::vector<Values>& points) {
  const std::vector<size_t> front = FrontOf(points);
  const size_t objectives = points.front().size();
  Range range{Values(objectives, HUGE_VAL), Values(objectives)};
  for (size_t k = 0; k < objectives; ++k) {
    double of_front = -HUGE_VAL, of_all = -HUGE_VAL;
    for (const size_t i : front) of_front = std::max(of_front, points[i][k]);
    for (const Values& each : points) {
      range.least[k] = std::min(range.least[k], each[k]);
      of_all = std::max(of_all, each[k]);
    }
    const double most = of_front > range.least[k] ? of_front : of_all;
    const double width = most - range.least[k];
    range.width[k] = width > 0 && std::isfinite(width) ? width : 1;
  }
  return range;
}

// Gives the trials places from `first` on, the least key first; equal keys share one. Returns the
// last place.
template <typename Key>
double PlaceEqually(std::vector<FinishedTrial*>& trials, double first, const Key& key) {
  const auto is_before = [&](const auto* a, const auto* b) { return key(*a) < key(*b); };
  std::stable_sort(trials.begin(), trials.end(), is_before);
  double place = first;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (i > 0 && key(*trials[i]) != key(*trials[i - 1])) ++place;
    trials[i]->value = place;
  }
  return place;
}

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
  std::vector<FinishedTrial*> kept, broken;
  for (FinishedTrial& trial : trials)
    if (!trial.values.empty()) (trial.violation > 0 ? broken : kept).push_back(&trial);
  // By number, because trials come in the order in which this process saw them end.
  std::sort(kept.begin(), kept.end(),
            [](const FinishedTrial* a, const FinishedTrial* b) { return a->number < b->number; });
  double last = 0;
  if (signs_.size() == 1) {
    last = PlaceEqually(kept, 0, [](const FinishedTrial& trial) { return trial.values[0]; });
  } else {
    std::vector<Values> points;
    points.reserve(kept.size());
    for (const FinishedTrial* trial : kept) points.push_back(trial->values);
    const std::vector<double> places = PlacesOf(points, kTogether, kRanked);
    for (size_t i = 0; i < kept.size(); ++i) {
      kept[i]->value = places[i];
      last = std::max(last, places[i]);
    }
  }
  PlaceEqually(broken, last + 1, [](const FinishedTrial& trial) { return trial.violation; });
}

std::vector<double> CombinedValues(const std::vector<const FinishedTrial*>& trials, uint64_t seed,
                                   uint64_t number) {
  std::vector<Values> kept;
  for (const FinishedTrial* trial : trials)
    if (trial->violation == 0) kept.push_back(trial->values);
  if (kept.empty())
    for (const FinishedTrial* trial : trials) kept.push_back(trial->values);
  if (kept.empty()) return {};
  const Range range = RangeOf(kept);
  const size_t objectives = range.least.size();
  Rng rng(seed ^ kWeightStream, number);
  std::vector<double> weights(objectives, 1);
  double total = 0;
  for (double& weight : weights) {
    if (objectives > 1) weight = -Log(1 - rng.Uniform() * (1 - 0x1p-30));
    total += weight;
  }
  std::vector<double> combined;
  for (const FinishedTrial* trial : trials) {
    double largest = -HUGE_VAL, sum = 0;
    for (size_t k = 0; k < objectives; ++k) {
      const double part =
          weights[k] / total * ((trial->values[k] - range.least[k]) / range.width[k]);
      largest = std::max(largest, part);
      sum += part;
    }
    const double value = objectives == 1 ? largest : largest + kSumPart * sum;
    combined.push_back(std::isfinite(value) ? value : kFarAway);
  }
  return combined;
}

}  // namespace rt
