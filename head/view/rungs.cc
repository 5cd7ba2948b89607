// What a scheduler has recorded of an experiment's trials: the rungs with their trials, and the
// population of a scheduler that clones.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "head/core/core.h"
#include "head/view/parts.h"

namespace rt {

// The trials that came to the rung and to none above it, the best first.
static Json OccupantsOf(const Experiment& experiment, const Rung& rung, Mode mode) {
  constexpr size_t kShownMax = 20;
  std::vector<std::pair<double, uint32_t>> there;
  for (const RungEntry& entry : rung.entries) {
    const auto& milestones = experiment.trials.at(entry.trial).milestones;
    if (milestones.empty() || *milestones.rbegin() != rung.milestone) continue;
    const double order = mode == Mode::kMax ? -entry.value : entry.value;
    there.emplace_back(std::isnan(order) ? HUGE_VAL : order, entry.trial);
  }
  const size_t shown = std::min(there.size(), kShownMax);
  std::partial_sort(there.begin(), there.begin() + static_cast<std::ptrdiff_t>(shown), there.end());
  there.resize(shown);
  Json trials = Json::MakeArray();
  for (const auto& [order, number] : there) {
    const double value = mode == Mode::kMax ? -order : order;
    trials.Append(Json::MakeObject({{"trial_id", ToString(TrialId{experiment.id, number})},
                                    {"value", std::isfinite(value) ? Json(value) : Json()}}));
  }
  return trials;
}

// What early stopping did at each rung. A trial that was paused is at the highest that it reached.
Json RungsOf(const Experiment& experiment, Mode mode, bool pauses) {
  std::map<std::pair<uint32_t, double>, std::pair<int64_t, int64_t>> counts;  // Paused, stopped.
  for (const Trial& trial : experiment.trials) {
    if (!pauses || trial.milestones.empty()) continue;
    auto& [paused, stopped] = counts[{trial.bracket, *trial.milestones.rbegin()}];
    const bool is_over = trial.end != TrialEnd::kNone;
    paused += !is_over && trial.pause_cause == PauseCause::kScheduler ? 1 : 0;
    stopped += trial.stop_cause == StopCause::kEarly ? 1 : 0;
  }
  Json rungs = Json::MakeArray();
  for (const Rung& rung : experiment.rungs) {
    const auto& [paused, stopped] = counts[{rung.bracket, rung.milestone}];
    rungs.Append(Json::MakeObject(
        {{"bracket", Json(rung.bracket)},
         {"milestone", NumberOrInt(rung.milestone)},
         {"recorded", Json(rung.recorded)},
         {"stopped", Json(std::max<int64_t>(stopped, static_cast<int64_t>(rung.stopped)))},
         {"paused", Json(paused)},
         {"trials", OccupantsOf(experiment, rung, mode)}}));
  }
  return rungs;
}

// Of population based training: each trial's newest compared value, and whom it was cloned from.
Json PopulationOf(const Experiment& experiment) {
  Json population = Json::MakeArray();
  for (const Trial& trial : experiment.trials) {
    Json member = Json::MakeObject({{"trial", ToString(trial.id)},
                                    {"score", Json()},
                                    {"compared_at", Json()},
                                    {"clones", Json(trial.cloned)},
                                    {"cloned_from", Json()}});
    for (const Rung& rung : experiment.rungs) {
      if (trial.milestones.empty() || rung.milestone != *trial.milestones.rbegin()) continue;
      for (const RungEntry& entry : rung.entries)
        if (entry.trial == trial.id.number) member.Set("score", entry.value);
      member.Set("compared_at", NumberOrInt(rung.milestone));
    }
    if (!trial.clones.empty())
      member.Set("cloned_from", ToString(TrialId{trial.id.experiment, trial.clones.back().from}));
    population.Append(std::move(member));
  }
  return population;
}

}  // namespace rt
