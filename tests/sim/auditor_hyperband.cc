// The auditor's part about HyperBand, from the paper and Ray's page and not from common/decide: the
// trials of a bracket wait for each other at their rungs, and then the best continue.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// A value that is not a number is the worst.
double CostOf(double value, bool maximise) {
  if (std::isnan(value)) return INFINITY;
  return maximise ? -value : value;
}

// No more trials will begin in the bracket.
template <class Experiment>
bool IsFull(const Experiment& experiment, uint32_t bracket) {
  const std::vector<AuditedBracket> band = experiment.spec.Band();
  double created = 0;
  for (const auto& trial : experiment.trials) created += trial.bracket == bracket ? 1 : 0;
  return experiment.search_over || experiment.search_finished ||
         experiment.trials.size() == experiment.spec.trials_total ||
         created >= band[bracket % band.size()].trials;
}

}  // namespace

// Bracket s of a band begins with S factor^s / (s + 1) trials, and trains them to max_t / factor^s.
std::vector<AuditedBracket> AuditedSpec::Band() const {
  std::vector<AuditedBracket> band;
  const double count = std::round(std::log(max_t) / std::log(factor)) + 1;
  for (double s = 0; s < count; ++s) {
    const double first = std::floor(max_t / std::pow(factor, s) + 1e-9);
    if (first < 1) break;
    AuditedBracket bracket{std::ceil(count / (s + 1) * std::pow(factor, s) - 1e-9), {first}};
    for (double i = 0; i < s; ++i)
      bracket.rungs.push_back(std::floor(std::min(max_t, bracket.rungs.back() * factor)));
    band.push_back(bracket);
  }
  return band;
}

void Auditor::CheckWaiting(TrialId id) {
  const ExperimentBook& experiment = ExperimentOf(id.experiment);
  TrialBook& trial = TrialOf(id);
  Must(!trial.rungs.empty() && trial.rungs.rbegin()->first < experiment.spec.EndOf(trial.bracket),
       "only a trial at a rung before its last is paused");
  trial.held = true;
}

// No other trial of its bracket is on its way, and none will begin in it.
bool Auditor::IsLastOfBracket(const ExperimentBook& experiment, const TrialBook& trial) {
  for (const TrialBook& other : experiment.trials) {
    const bool is_other = other.bracket == trial.bracket && &other != &trial;
    if (is_other && !other.held && !other.runs.over && !other.runs.stop_requested) return false;
  }
  return IsFull(experiment, trial.bracket);
}

// Every bracket of which the answer says something is halved as a whole.
void Auditor::CheckHalvings(const event::Answered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  std::set<uint32_t> brackets, stopped;
  for (const StoppedTrial& stop : e.stopped) {
    const TrialBook& trial = TrialOf({e.experiment, stop.number});
    if (stop.cause == StopCause::kEarly) stopped.insert(stop.number);
    if (stop.cause == StopCause::kEarly && trial.held) brackets.insert(trial.bracket);
  }
  for (uint32_t number : e.resumed) {
    const TrialBook& trial = TrialOf({e.experiment, number});
    Must(trial.held && trial.runs.paused, "only a trial that waits in its bracket continues");
    brackets.insert(trial.bracket);
  }
  for (uint32_t bracket : brackets)
    CheckHalving(experiment, bracket, stopped, {e.resumed.begin(), e.resumed.end()});
  for (const StoppedTrial& stop : e.stopped) {
    TrialBook& trial = TrialOf({e.experiment, stop.number});
    if (stop.cause == StopCause::kEarly && brackets.contains(trial.bracket)) trial.may_stop = true;
    trial.held = false;
  }
}

void Auditor::CheckHalving(const ExperimentBook& experiment, uint32_t bracket,
                           const std::set<uint32_t>& stopped, const std::set<uint32_t>& resumed) {
  Must(IsFull(experiment, bracket) || SearchMayWait(experiment),
       "a bracket that may become full waits");
  std::vector<double> kept, ended;  // Costs.
  for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
    const TrialBook& trial = experiment.trials[number];
    if (trial.bracket != bracket || trial.runs.over || trial.runs.stop_requested) continue;
    const bool has_arrived = !trial.batch_rungs.empty() && !trial.held;
    Must(trial.held || has_arrived,
         "a bracket is halved when all of its trials are at their rungs");
    const bool is_stopped = stopped.contains(number);
    Must(is_stopped || has_arrived || resumed.contains(number), "a bracket is decided as a whole");
    (is_stopped ? ended : kept)
        .push_back(CostOf(trial.rungs.rbegin()->second, experiment.spec.maximise));
  }
  const auto all = static_cast<double>(kept.size() + ended.size());
  Must(static_cast<double>(kept.size()) == std::ceil(all / experiment.spec.factor),
       "one in `factor` continues, rounded up");
  if (ended.empty()) return;
  Must(*std::max_element(kept.begin(), kept.end()) <= *std::min_element(ended.begin(), ended.end()),
       "the best of the bracket continue");
}

// After a transaction: a trial at a rung is paused until its bracket was halved, and nobody waits
// when nothing else can run.
void Auditor::CheckWaits(const ExperimentBook& experiment) const {
  if (!experiment.spec.halves) return;
  for (const TrialBook& trial : experiment.trials) {
    if (trial.rungs.empty() || trial.runs.over || trial.runs.stop_requested) continue;
    Must(trial.runs.paused || trial.promoted.contains(trial.rungs.rbegin()->first),
         "a trial at a rung waits for its bracket");
  }
}

}  // namespace rt::sim
