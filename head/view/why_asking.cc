// What an experiment, or a trial, waits for when its driver is away, or in a function of the
// user's.
#include "common/algorithms/registry.h"
#include "common/base/strings.h"
#include "head/core/driver_hooks.h"
#include "head/view/view.h"
#include "head/view/why.h"

namespace rt {
namespace {

std::string CallText(const DriverCall& call) {
  return "has been in " + call.function + " since " + FormatTime(call.since);
}

// A script that is submitted again is another job, with a search of its own.
std::string AdviceFor(const State& state, const Experiment& experiment) {
  if (experiment.job.value == 0) return "run the script again";
  const std::string name = "job " + std::to_string(experiment.job.value);
  const auto job = state.jobs.find(experiment.job);
  if (job != state.jobs.end() && job->second.end == JobEnd::kNone) return "it is " + name;
  return name + " has ended; a script with Tuner.restore continues the search";
}

std::string WaitText(const Core& core, ExperimentId id, const std::string& what, Millis now) {
  const State& state = core.world.state;
  if (const DriverCall* call = FindDriverCall(core, id, now); call != nullptr)
    return "waits for its driver to " + what + ": the driver " + CallText(*call);
  return "waits for its driver, which is away, to " + what + ": " +
         AdviceFor(state, state.experiments.at(id));
}

}  // namespace

Json AskedView(const Core& core, ExperimentId id) {
  const ExperimentSpec& spec = core.world.index.experiments.at(id).spec;
  Json list = Json::MakeArray();
  for (uint32_t number : AskedNumbers(core.world, id)) {
    auto drawn = SearcherOf(spec).Propose(spec, core.world.state.experiments.at(id).seed, number);
    list.Append(Json::MakeObject(
        {{"number", number}, {"params", drawn ? *std::move(drawn) : Json::MakeObject()}}));
  }
  return list;
}

std::string WhyAsking(const Core& core, ExperimentId id, Millis now) {
  const Experiment& experiment = core.world.state.experiments.at(id);
  // Most experiments ask nothing: their trials, which may be thousands, are not looked at.
  if (!core.world.index.experiments.at(id).spec.driver.IsAsked()) return "";
  const DriverCall* call = FindDriverCall(core, id, now);
  if (call == nullptr && (!experiment.is_searching() || !IsDriverAway(core, id, now))) return "";
  if (call != nullptr && experiment.finished) return "";  // Its job says so.
  const std::vector<uint32_t> asked = AskedNumbers(core.world, id);
  if (!asked.empty())
    return WaitText(core, id, "suggest trial " + ToString(TrialId{id, asked.front()}), now);
  const ExperimentIndex& index = core.world.index.experiments.at(id);
  for (uint32_t number : index.pending) {
    const Trial& trial = experiment.trials.at(number);
    if (trial.pause_cause == PauseCause::kScheduler && !index.spec.driver.scheduler.empty())
      return WaitText(core, id, "select when trial " + ToString(trial.id) + " runs", now);
  }
  for (const Trial& trial : experiment.trials)
    if (HasOpenClone(trial))
      return WaitText(core, id, "explore for trial " + ToString(trial.id), now);
  for (uint32_t number : index.live) {
    std::string why = WhyUndecided(core, experiment.trials.at(number), now);
    if (!why.empty()) return why;
  }
  return call == nullptr ? "" : "its driver " + CallText(*call);
}

std::string WhyJobRuns(const Core& core, JobId id, Millis now) {
  for (ExperimentId each : core.world.index.jobs.at(id).experiments) {
    const DriverCall* call = FindDriverCall(core, each, now);
    if (call == nullptr) continue;
    const bool over = core.world.state.experiments.at(each).finished;
    return CallText(*call) + (over ? ", although experiment " : ", for experiment ") +
           std::to_string(each.value) + (over ? " has ended" : "");
  }
  return "";
}

std::string WhyUndecided(const Core& core, const Trial& trial, Millis now) {
  const Attempt* live = trial.runs.live();
  if (live == nullptr || live->undecided.empty() || trial.stop_cause != StopCause::kNone) return "";
  const ExperimentId id = trial.id.experiment;
  if (!IsDriverAway(core, id, now) && FindDriverCall(core, id, now) == nullptr) return "";
  return WaitText(core, id,
                  "decide about iteration " + FormatDouble(trial.last.iteration) + " of trial " +
                      ToString(trial.id),
                  now);
}

}  // namespace rt
