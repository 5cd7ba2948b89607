#include "common/search/bohb.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/search/rungs.h"
#include "common/search/tpe.h"

namespace rt {
namespace {

bool HasModel(const std::vector<FinishedTrial>& trials, size_t rows_min) {
  std::set<double> different;
  size_t finite = 0;
  for (const FinishedTrial& trial : trials) {
    if (!std::isfinite(trial.value)) continue;
    ++finite;
    different.insert(trial.value);
  }
  return finite >= rows_min + 2 && different.size() > 1;
}

// The trials at a rung as if they were all that is known; the others are points only.
Observations SeenAt(const Observations& seen, std::vector<FinishedTrial> at_rung) {
  Observations only{std::move(at_rung), {}};
  std::set<uint64_t> known;
  for (const FinishedTrial& trial : only.finished) known.insert(trial.number);
  const auto add = [&](uint64_t number, const Point& point) {
    if (!known.contains(number)) only.in_flight.push_back({number, point});
  };
  for (const FlyingTrial& trial : seen.in_flight) add(trial.number, trial.point);
  for (const FinishedTrial& trial : seen.finished) add(trial.number, trial.point);
  return only;
}

}  // namespace

std::optional<BohbAnswer> SuggestBohb(const Encoding& encoding, const Observations& observations,
                                      uint64_t seed, uint64_t number, const BohbOptions& options,
                                      const GiveUp& give_up) {
  // Another stream than that of the model's draws for this trial.
  const bool is_even = Rng(~seed, number).Chance(options.random_fraction);
  const size_t axes = encoding.axes().size();
  const size_t rows_min = options.rows_min > 0 ? options.rows_min : axes + 1;
  TpeOptions tpe{.startup_trials = SIZE_MAX,  // Sobol points only.
                 .good_fraction = options.good_fraction,
                 .candidates = options.candidates};
  std::optional<double> milestone;
  Observations known;
  if (!is_even) {
    TrialsByRung rungs = RungsOf(observations);
    auto highest = rungs.rbegin();
    while (highest != rungs.rend() && !HasModel(highest->second, rows_min)) ++highest;
    if (highest != rungs.rend()) {
      milestone = highest->first;
      known = SeenAt(observations, std::move(highest->second));
      tpe.startup_trials = 1;
    }
  }
  std::optional<TpeAnswer> answer = SuggestTpe(
      encoding, milestone.has_value() ? known : observations, seed, number, tpe, give_up);
  if (!answer.has_value()) return std::nullopt;
  if (!answer->from_model) milestone.reset();
  return BohbAnswer{std::move(answer->point), milestone, answer->repeated};
}

}  // namespace rt
