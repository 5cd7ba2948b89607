// Experiments: from the spec to trials, and when they are over.
#include <algorithm>

#include "common/algorithms/known_results.h"
#include "common/algorithms/registry.h"
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/spec/item_name.h"
#include "common/spec/journalled_spec.h"
#include "common/spec/slips.h"
#include "head/core/draft.h"
#include "head/core/freeze.h"
#include "head/core/requests.h"
#include "head/core/warm_start.h"

namespace rt {
namespace {

std::string UniqueResultsDir(const State& state, const std::string& wanted) {
  auto taken = [&](const std::string& path) {
    return std::any_of(state.experiments.begin(), state.experiments.end(),
                       [&](const auto& item) { return item.second.results_dir == path; });
  };
  std::string path = wanted;
  for (int suffix = 2; taken(path); ++suffix) path = wanted + "-" + std::to_string(suffix);
  return path;
}

// What ended the search, whatever its retried trials have done since. `end` is kNone where its
// trials decide: at the algorithm's end.
SearchEnd SearchEndOf(const Experiment& experiment) {
  SearchEnd search = experiment.search;
  if (!search.over) search = {false, experiment.stop_cause, {}, experiment.stop_reason};
  switch (search.cause) {
    case StopCause::kUser:
    case StopCause::kBudget:
      // A budget's end was COMPLETED in release 0.1.0, and stays that.
      if (!search.over) search.end = ExperimentEnd::kStopped;
      return search;
    case StopCause::kExperiment:  // fail_fast, or the breaker.
      search.end = ExperimentEnd::kFailed;
      return search;
    case StopCause::kNone:
    case StopCause::kRule:
      search.end = ExperimentEnd::kNone;
      return search;
    case StopCause::kEarly:
    case StopCause::kMaxT:
    case StopCause::kMetric:
      break;
  }
  RT_CHECK_BECAUSE(false, "the cause ends trials, not searches");
}

}  // namespace

bool IsExhausted(const World& world, ExperimentId id) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentIndex& index = world.index.experiments.at(id);
  if (experiment.search_finished) return true;
  if (index.closed && !index.spec.driver.searches) return true;
  const uint64_t made = experiment.trials.size();
  std::optional<uint64_t> total = index.spec.TrialsTotal();
  if (total.has_value() && made >= *total) return true;
  if (index.spec.driver.searches) return false;
  return !SearcherOf(index.spec).Propose(index.spec, experiment.seed, made).has_value();
}

absl::Status OnCreateExperiment(Draft& draft, const input::CreateExperiment& input) {
  const State& state = draft.state();
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(input.spec));
  RT_ASSIGN_OR_RETURN(const Experiment* known,
                      FindCreated(state, input.owner, input.request_key, json));
  if (known != nullptr) {
    draft.out.answer.experiment = known->id;
    draft.out.answer.results_dir = known->results_dir;
    draft.out.answer.attached = true;
    return absl::OkStatus();
  }
  if (input.job.value != 0) {
    auto job = state.jobs.find(input.job);
    if (job == state.jobs.end()) return NotFound("no such job");
    // A job that is stopped stops its experiments: nobody else's may depend on it.
    if (job->second.owner != input.owner)
      return WithHint(absl::PermissionDeniedError("job " + std::to_string(input.job.value) +
                                                  " belongs to another user"),
                      "name a job of your own, or none");
    // Its driver may not know of that yet: nothing would stop an experiment that it starts now.
    if (job->second.stop_requested)
      return absl::FailedPreconditionError("the job was asked to stop");
    if (job->second.end != JobEnd::kNone)
      return absl::FailedPreconditionError("the job is over");
  }
  if (const Json* space = json.Find("space"); space != nullptr && space->is_object())
    RT_RETURN_IF_ERROR(CheckSpaceNames(*space, "space"));
  RT_ASSIGN_OR_RETURN(ExperimentSpec spec, ParseExperimentSpec(json));
  RT_RETURN_IF_ERROR(CheckItemName("experiment", spec.name));
  RT_RETURN_IF_ERROR(CheckPossible(draft.core, spec.resources));
  EmptyUnusableResults(spec);
  RT_RETURN_IF_ERROR(AddWarmStart(draft.core.world, spec));
  ExperimentId id{state.next_experiment};
  std::string wanted = spec.results_dir.empty() ? input.results_root : spec.results_dir;
  std::string results_dir = UniqueResultsDir(
      state, input.reserved_dir.empty() ? wanted + "/" + spec.name : input.reserved_dir);
  draft.Emit(event::ExperimentCreated{id, input.owner, input.job, input.spec, input.request_key,
                                      spec.seed.value_or(input.drawn_seed), results_dir,
                                      NormalText(spec), kSpecFormat});
  draft.out.answer.experiment = id;
  draft.out.answer.results_dir = results_dir;
  ProposeTrials(draft, id);
  return absl::OkStatus();
}

absl::Status OnStopExperiment(Draft& draft, const input::StopExperiment& input) {
  if (!draft.state().experiments.contains(input.experiment))
    return NotFound("no such experiment");
  StopExperiment(draft, input.experiment, StopCause::kUser, input.reason);
  return absl::OkStatus();
}

void StopExperiment(Draft& draft, ExperimentId id, StopCause cause, const std::string& reason) {
  const Experiment& experiment = draft.state().experiments.at(id);
  if (experiment.finishing || experiment.stop_cause != StopCause::kNone) return;
  draft.Emit(event::ExperimentStopRequested{id, cause, reason});
  const ExperimentIndex& index = draft.index().experiments.at(id);
  const std::set<uint32_t> live = index.live, pending = index.pending;  // Copies: Emit edits them.
  const bool is_told = cause == StopCause::kUser || cause == StopCause::kRule;
  StopCause trial_cause = is_told ? StopCause::kExperiment : cause;
  for (uint32_t number : live) RequestStop(draft, {id, number}, trial_cause, reason);
  for (uint32_t number : pending) {
    if (IsFrozen(draft.core.world, Owner::Of(TrialId{id, number})))
      RequestStop(draft, {id, number}, trial_cause, reason);
    else draft.Emit(event::TrialEnded{{id, number}, EndFor(trial_cause), reason, {}});
  }
  MaybeFinish(draft, id);
}

void MaybeFinish(Draft& draft, ExperimentId id) {
  const Experiment& experiment = draft.state().experiments.at(id);
  const ExperimentIndex& index = draft.index().experiments.at(id);
  if (experiment.finishing || !index.live.empty()) return;
  if (!index.pending.empty()) return ReviewTrials(draft, id);
  const bool stopping = experiment.stop_cause != StopCause::kNone;
  if (!stopping && !experiment.search.over && !IsExhausted(draft.core.world, id)) return;
  const SearchEnd search = SearchEndOf(experiment);
  const uint64_t total = experiment.trials.size();
  ExperimentEnd end = search.end;
  std::string reason = search.reason;
  if (end == ExperimentEnd::kNone && total > 0 && index.failed == total) {
    end = ExperimentEnd::kFailed;
    reason = total == 1 ? "its only trial failed" : "all trials failed";
  }
  if (end == ExperimentEnd::kNone) end = ExperimentEnd::kCompleted;
  draft.Emit(event::ExperimentFinishing{id, end, reason});
}

void OnSinksFlushed(Draft& draft, const input::SinksFlushed& input) {
  draft.soft().results_problems = input.problems;
  const std::set<ExperimentId> waiting = draft.index().unflushed_experiments;
  for (ExperimentId id : waiting) {
    if (draft.state().experiments.at(id).finishing_seq <= input.seq && !input.behind.contains(id))
      draft.Emit(event::ExperimentFinished{id});
  }
}

void CheckBudgets(Draft& draft) {
  const std::set<ExperimentId> open = draft.index().open_experiments;
  for (ExperimentId id : open) {
    Millis budget = draft.index().experiments.at(id).spec.time_budget;
    const Experiment& experiment = draft.state().experiments.at(id);
    const bool runs = experiment.started_at > 0 && experiment.budget_paused_at == 0;
    if (budget > 0 && runs &&
        draft.now >= experiment.started_at + experiment.budget_paused_total + budget)
      StopExperiment(draft, id, StopCause::kBudget, "the time budget ran out");
  }
}

}  // namespace rt
