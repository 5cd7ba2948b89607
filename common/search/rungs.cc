#include "common/search/rungs.h"

#include <cmath>

namespace rt {
namespace {

// `Trial` is a FinishedTrial or a FlyingTrial.
template <class Trial>
void AddRungs(const Trial& trial, TrialsByRung& rungs) {
  for (const RungResult& each : trial.rungs)
    rungs[each.milestone].push_back({trial.number, trial.point, each.value});
}

}  // namespace

TrialsByRung RungsOf(const Observations& seen) {
  TrialsByRung rungs;
  for (const FlyingTrial& trial : seen.in_flight) AddRungs(trial, rungs);
  for (const FinishedTrial& trial : seen.finished) {
    AddRungs(trial, rungs);
    if (trial.rungs.empty() && std::isfinite(trial.value))
      rungs[kTrainedToTheEnd].push_back({trial.number, trial.point, trial.value});
  }
  for (const FinishedTrial& trial : seen.finished) {
    if (std::isfinite(trial.value)) continue;
    const double reached = trial.rungs.empty() ? -HUGE_VAL : trial.rungs.back().milestone;
    for (auto rung = rungs.upper_bound(reached); rung != rungs.end(); ++rung)
      rung->second.push_back({trial.number, trial.point, std::nan("")});
  }
  return rungs;
}

}  // namespace rt
