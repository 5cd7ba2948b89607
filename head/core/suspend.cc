// Pausing and resuming trials and experiments: suspend -> commit -> resume is one primitive. Also
// reopening what has finished: extending or resuming a search, retrying a trial.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/freeze.h"

namespace rt {
namespace {

using TrialAction = input::ResumeExperiment::TrialAction;

absl::StatusOr<const Experiment*> Find(Draft& draft, ExperimentId id) {
  auto found = draft.state().experiments.find(id);
  if (found == draft.state().experiments.end())
    return NotFound("there is no experiment " + std::to_string(id.value));
  return &found->second;
}

absl::StatusOr<const Trial*> Find(Draft& draft, TrialId id) {
  const Trial* trial = FindTrial(draft.state(), id);
  if (trial == nullptr) return NotFound("there is no trial " + ToString(id));
  return trial;
}

absl::Status Refuse(const std::string& what, const std::string& hint) {
  return WithHint(absl::FailedPreconditionError(what), hint);
}

absl::Status CheckOpen(const Experiment& experiment) {
  const std::string name = "experiment " + std::to_string(experiment.id.value);
  if (experiment.finishing) return Refuse(name + " has ended", "resume or extend it");
  if (experiment.stop_cause != StopCause::kNone)
    return Refuse(name + " is stopping", "wait until it has ended");
  return absl::OkStatus();
}

// Refuses to reopen the search while retried trials run: they would count as trials of the search.
absl::Status CheckNoRetries(const Experiment& experiment) {
  if (!experiment.search.over || experiment.finishing) return absl::OkStatus();
  const std::string id = std::to_string(experiment.id.value);
  return Refuse("the search of experiment " + id + " has ended, and only retried trials run",
                "wait until they have ended, or end them with rt exp stop " + id);
}

// Ended with its experiment, not by what it did itself.
bool WasCutOff(const Trial& trial) {
  return trial.end == TrialEnd::kStopped &&
         (trial.stop_cause == StopCause::kNone || trial.stop_cause == StopCause::kExperiment ||
          trial.stop_cause == StopCause::kBudget);
}

void Retry(Draft& draft, const Trial& trial, bool from_scratch) {
  const TrialId id = trial.id;
  while (from_scratch && !trial.runs.checkpoints.empty())
    draft.Emit(event::CheckpointRetired{Owner::Of(id), trial.runs.checkpoints.front().id});
  draft.Emit(event::TrialRetried{id});
}

// Of a trial that is over.
TrialAction ActionFor(const Trial& trial, const input::ResumeExperiment& input) {
  if (trial.end == TrialEnd::kFailed) return input.failed;
  return WasCutOff(trial) ? input.unfinished : input.finished;
}

// Reopens the search; those of its trials that run again wait for nodes.
void Reopen(Draft& draft, const input::ResumeExperiment& input) {
  draft.Emit(event::ExperimentReopened{input.experiment, input.trainable, false});
  const Experiment& experiment = draft.state().experiments.at(input.experiment);
  for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
    const Trial& trial = experiment.trials[number];
    const TrialAction action = ActionFor(trial, input);
    if (action != TrialAction::kLeave) Retry(draft, trial, action == TrialAction::kRestart);
  }
  ProposeTrials(draft, input.experiment);
  MaybeFinish(draft, input.experiment);
}

// Whether the search has something left to do once it is reopened.
bool HasMore(Draft& draft, const Experiment& experiment, const input::ResumeExperiment& input) {
  for (const Trial& trial : experiment.trials)
    if (ActionFor(trial, input) != TrialAction::kLeave) return true;
  std::optional<uint64_t> total = draft.index().experiments.at(experiment.id).spec.TrialsTotal();
  return !total || experiment.trials.size() < *total;
}

// Of its time budget, which does not run while it is paused or finished.
Millis UsedTime(const Draft& draft, const Experiment& experiment) {
  if (experiment.started_at == 0) return 0;
  const Millis until = experiment.budget_paused_at == 0 ? draft.now : experiment.budget_paused_at;
  return until - experiment.budget_paused_total - experiment.started_at;
}

absl::Status CheckBudgetLeft(Draft& draft, const Experiment& experiment) {
  const Millis budget = draft.index().experiments.at(experiment.id).spec.time_budget;
  if (budget == 0 || UsedTime(draft, experiment) < budget) return absl::OkStatus();
  return Refuse("the time budget of experiment " + std::to_string(experiment.id.value) +
                    " is used up",
                "give it more: rt exp extend " + std::to_string(experiment.id.value) +
                    " --time 30m");
}

}  // namespace

absl::Status OnPauseExperiment(Draft& draft, const input::PauseExperiment& input) {
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, Find(draft, input.experiment));
  RT_RETURN_IF_ERROR(CheckOpen(*experiment));
  if (experiment->paused) return absl::OkStatus();
  draft.Emit(event::ExperimentPaused{input.experiment, input.reason});
  CancelBackfills(draft, input.experiment, "its experiment was paused");
  const std::set<uint32_t> live = draft.index().experiments.at(input.experiment).live;
  for (uint32_t number : live) {
    const Owner owner = Owner::Of(TrialId{input.experiment, number});
    draft.MarkDirty(owner);
    TryFreeze(draft, owner);
  }
  return absl::OkStatus();
}

absl::Status OnResumeExperiment(Draft& draft, const input::ResumeExperiment& input) {
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, Find(draft, input.experiment));
  if (!experiment->finishing) {
    RT_RETURN_IF_ERROR(CheckOpen(*experiment));
    if (!experiment->paused) RT_RETURN_IF_ERROR(CheckNoRetries(*experiment));
    if (!experiment->paused)
      return Refuse("experiment " + std::to_string(input.experiment.value) + " is not paused", "");
    draft.Emit(event::ExperimentResumed{input.experiment});
    CheckBudgets(draft);  // Its time may have run out before, while the head was stopped.
    ProposeTrials(draft, input.experiment);
    return absl::OkStatus();
  }
  RT_RETURN_IF_ERROR(CheckBudgetLeft(draft, *experiment));
  if (!HasMore(draft, *experiment, input)) {
    return Refuse(
        "experiment " + std::to_string(input.experiment.value) + " has nothing left to do",
        "rt exp extend adds trials or time; rt exp resume --failed retries failed trials");
  }
  Reopen(draft, input);
  return absl::OkStatus();
}

absl::Status OnExtendExperiment(Draft& draft, const input::ExtendExperiment& input) {
  RT_ASSIGN_OR_RETURN(const Experiment* experiment, Find(draft, input.experiment));
  if (!experiment->finishing) RT_RETURN_IF_ERROR(CheckOpen(*experiment));
  RT_RETURN_IF_ERROR(CheckNoRetries(*experiment));
  const ExperimentSpec& spec = draft.index().experiments.at(input.experiment).spec;
  if (input.add_samples < 0 || input.add_time < 0 ||
      (input.add_samples == 0 && input.add_time == 0))
    return Invalid("nothing to extend", "give --samples or --time");
  if (input.add_samples > limits::kSamplesMax - std::max<int64_t>(spec.num_samples, 0))
    return Invalid("an experiment has at most " + std::to_string(limits::kSamplesMax) +
                       " samples; this one has " + std::to_string(spec.num_samples),
                   "add fewer");
  if (input.add_samples > 0 && spec.num_samples < 0)
    return Invalid("its number of trials is already unlimited", "add time instead");
  if (input.add_time > 0 && spec.time_budget == 0 && input.add_samples == 0)
    return Invalid("it has no time budget that could be extended", "add trials instead");
  event::ExperimentExtended extended{input.experiment, spec.num_samples, spec.time_budget};
  if (spec.num_samples >= 0) extended.num_samples += input.add_samples;
  // A finished search may have overrun its budget: the new time counts from there.
  if (spec.time_budget > 0) {
    const Millis from =
        std::max(spec.time_budget, input.add_time > 0 ? UsedTime(draft, *experiment) : 0);
    if (input.add_time > 0 && input.add_time > limits::kTimeBudgetMax - from)
      return Invalid("the time budget of an experiment is at most " +
                         std::to_string(limits::kTimeBudgetMax / 1'000) + " s; this one has " +
                         std::to_string(from / 1'000) + " s",
                     "add less");
    extended.time_budget = from + input.add_time;
  }
  if (input.add_time == 0) RT_RETURN_IF_ERROR(CheckBudgetLeft(draft, *experiment));
  draft.Emit(extended);
  if (experiment->finishing) {
    Reopen(draft, {.experiment = input.experiment});
  } else {
    ProposeTrials(draft, input.experiment);
  }
  return absl::OkStatus();
}

absl::Status OnPauseTrial(Draft& draft, const input::PauseTrial& input) {
  RT_ASSIGN_OR_RETURN(const Trial* trial, Find(draft, input.trial));
  if (trial->end != TrialEnd::kNone || trial->stop_cause != StopCause::kNone)
    return Refuse("trial " + ToString(input.trial) + " has ended or is stopping", "");
  const bool is_paused =
      trial->pause_cause != PauseCause::kNone && trial->pause_cause != PauseCause::kResources;
  if (is_paused) return absl::OkStatus();
  draft.Emit(event::TrialPaused{input.trial, input.cause, input.reason});
  CancelBackfill(draft, Owner::Of(input.trial), "it was paused");
  if (input.cause == PauseCause::kUser) TryFreeze(draft, Owner::Of(input.trial));
  return absl::OkStatus();
}

absl::Status OnResumeTrial(Draft& draft, const input::ResumeTrial& input) {
  RT_ASSIGN_OR_RETURN(const Trial* trial, Find(draft, input.trial));
  if (trial->end != TrialEnd::kNone)
    return Refuse(
        "trial " + ToString(input.trial) + " has ended",
        trial->end == TrialEnd::kCompleted ? "" : "rt trial retry " + ToString(input.trial));
  if (trial->pause_cause == PauseCause::kNone) {
    if (draft.state().experiments.at(input.trial.experiment).paused)
      return Refuse("its experiment is paused",
                    "rt exp resume " + std::to_string(input.trial.experiment.value));
    return Refuse("trial " + ToString(input.trial) + " is not paused", "");
  }
  draft.Emit(event::TrialResumed{input.trial});
  return absl::OkStatus();
}

absl::Status OnRetryTrial(Draft& draft, const input::RetryTrial& input) {
  RT_ASSIGN_OR_RETURN(const Trial* trial, Find(draft, input.trial));
  const Experiment& experiment = draft.state().experiments.at(input.trial.experiment);
  if (trial->end == TrialEnd::kNone)
    return Refuse("trial " + ToString(input.trial) + " has not ended", "");
  if (trial->end == TrialEnd::kCompleted)
    return Refuse("trial " + ToString(input.trial) + " is COMPLETED: there is nothing to retry",
                  "");
  if (experiment.stop_cause != StopCause::kNone && !experiment.finishing)
    return CheckOpen(experiment);
  if (experiment.finishing)
    draft.Emit(event::ExperimentReopened{input.trial.experiment, "", /*retries_only=*/true});
  Retry(draft, *trial, input.from_scratch);
  return absl::OkStatus();
}

}  // namespace rt
