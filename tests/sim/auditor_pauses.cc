// The auditor's part about pauses, and about what is over and begins again: a search that is
// resumed or extended, a trial that is retried.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

bool Auditor::Asked(const std::string& what, const std::string& id) const {
  return truth_->asked.contains(what + " " + id);
}
void Auditor::On(const event::ExperimentPaused& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(!experiment.finishing && !experiment.stop_requested && !experiment.paused,
       "an open search is paused");
  Must(Asked("pause", std::to_string(e.experiment.value)), "somebody asked for the pause");
  experiment.paused = true;
  if (!experiment.search_over) experiment.budget_paused_at = at_;
  for (TrialBook& trial : experiment.trials) trial.runs.suspending |= trial.runs.live;
}
void Auditor::On(const event::ExperimentResumed& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(experiment.paused && !experiment.finishing, "a paused search is resumed");
  Must(Asked("resume", std::to_string(e.experiment.value)), "somebody asked it to go on");
  experiment.paused = false;
  if (experiment.search_over) return;
  experiment.budget_paused_total += at_ - experiment.budget_paused_at;
  experiment.budget_paused_at = 0;
}
void Auditor::On(const event::ExperimentExtended& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(!experiment.search_over || experiment.finishing, "nothing is added while retries run");
  Must(Asked("extend", std::to_string(e.experiment.value)), "somebody asked for more");
  const uint64_t total = experiment.spec.grid * static_cast<uint64_t>(e.num_samples);
  Must(total >= *experiment.spec.trials_total, "an extended search loses no trial");
  Must(e.time_budget >= experiment.spec.time_budget, "nor time");
  experiment.spec.trials_total = total;
  experiment.spec.time_budget = e.time_budget;
}
void Auditor::On(const event::ExperimentReopened& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  const std::string id = std::to_string(e.experiment.value);
  Must(experiment.finishing, "only what is over is opened again");
  if (e.retries_only) {
    Must(Asked("retry a trial of", id), "somebody asked for a retry");
    if (!experiment.search_over) experiment.search_cause = experiment.cause;
  } else {
    Must(Asked("extend", id) || Asked("resume", id), "somebody asked for more");
    experiment.budget_paused_total += at_ - experiment.budget_paused_at;
    experiment.budget_paused_at = 0;
    experiment.best_agreed = 0;
  }
  experiment.best_ended = false;
  experiment.search_over = e.retries_only;
  experiment.finishing = experiment.finished = experiment.stop_requested = experiment.paused =
      false;
  experiment.cause = StopCause::kNone;
}
void Auditor::On(const event::TrialRetried& e) {
  TrialBook& trial = TrialOf(e.trial);
  ExperimentBook& experiment = ExperimentOf(e.trial.experiment);
  Must(trial.runs.over && trial.end != TrialEnd::kCompleted,
       "who failed or was stopped is retried");
  Must(!experiment.finishing, "nothing runs in an experiment that is over");
  const std::string id = std::to_string(e.trial.experiment.value);
  Must(!experiment.search_over || Asked("retry a trial of", id),
       "a search that is over runs only trials that somebody retries");
  if (trial.end == TrialEnd::kFailed) --experiment.failed_trials;
  trial.runs.over = trial.runs.stop_requested = trial.runs.paused = false;
  trial.runs.failures = 0;
  trial.runs.excluded.clear();
  trial.runs.hangs = 0;
  trial.runs.must_fail = false;
  trial.end = TrialEnd::kNone;
  trial.cause = StopCause::kNone;
  trial.held = false;
  if (!trial.rungs.empty()) trial.promoted.insert(trial.rungs.rbegin()->first);
  trial.must_stop = trial.may_stop = trial.discarded = trial.lacks_metric = false;
  if (Asked("restart", ToString(e.trial))) {
    const auto& all = trial.runs.checkpoints;
    const bool any = std::any_of(all.begin(), all.end(), [](auto& c) { return !c.retired; });
    if (!any) trial.runs.checkpoints.clear();
  }
}
std::vector<TrialId> Auditor::PausedTrials() const {
  std::vector<TrialId> paused;
  for (const auto& [id, experiment] : experiments_) {
    for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
      const OwnerBook& runs = experiment.trials[number].runs;
      const bool is_held = experiment.trials[number].held;
      if (runs.paused && !runs.over && !is_held) paused.push_back({id, number});
    }
  }
  return paused;
}
std::vector<ExperimentId> Auditor::PausedExperiments() const {
  std::vector<ExperimentId> paused;
  for (const auto& [id, experiment] : experiments_) {
    if (experiment.paused && !experiment.finishing) paused.push_back(id);
  }
  return paused;
}

}  // namespace rt::sim
