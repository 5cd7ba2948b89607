#include "head/core/desired.h"

#include "common/base/check.h"
#include "head/core/draft.h"
#include "head/core/view.h"
#include "head/decide/asha.h"

namespace rt {
namespace {

// What the trial's side needs to end exactly where the rules say.
std::string ControlFor(const ExperimentSpec& spec, const Trial& trial) {
  Json control = Json::MakeObject();
  control.Set("metric", spec.metric);
  control.Set("mode", spec.mode == Mode::kMax ? "max" : "min");
  control.Set("time_attr", spec.asha ? spec.asha->time_attr : "training_iteration");
  Json milestones = Json::MakeArray();
  control.Set("max_t", Json());
  if (spec.asha.has_value()) {
    for (double milestone : AshaMilestones(*spec.asha, static_cast<int>(trial.bracket)))
      if (!trial.milestones.contains(milestone)) milestones.Append(milestone);
    if (spec.asha->stop_last_trials) control.Set("max_t", spec.asha->max_t);
  }
  control.Set("milestones", std::move(milestones));
  Json rules = Json::MakeArray();
  for (const StopRule& rule : spec.stop)
    rules.Append(Json::MakeObject({{"key", rule.key},
                                   {"at_most", rule.at_most},
                                   {"threshold", rule.threshold}}));
  control.Set("stop", std::move(rules));
  return control.Dump();
}

void FillTrial(const World& world, const Attempt& attempt, LaunchSpec& launch) {
  TrialId id = launch.fence.attempt.owner.trial();
  const Experiment& experiment = world.state.experiments.at(id.experiment);
  const ExperimentIndex& index = world.index.experiments.at(id.experiment);
  const ExperimentSpec& spec = index.spec;
  const Trial& trial = experiment.trials.at(id.number);
  auto params = Json::Parse(trial.params);
  RT_CHECK(params.ok());
  auto argv = SubstituteCommand(spec.command, *params);
  launch.argv = argv.ok() ? *std::move(argv) : spec.command;
  launch.env = spec.env;
  launch.env["RT_EXPERIMENT_NAME"] = spec.name;
  launch.bundle = spec.bundle;
  launch.cwd = spec.cwd;
  launch.inputs = spec.inputs;
  launch.params = trial.params;
  launch.resources = spec.resources.bundles.at(launch.fence.rank);
  launch.report_regex = spec.report_regex;
  launch.name = TrialName(experiment, index, id.number);
  launch.env["RT_TRIAL_NAME"] = launch.name;
  if (spec.asha.has_value()) launch.env["RT_MAX_T"] = Json(spec.asha->max_t).Dump();
  launch.control = ControlFor(spec, trial);
  for (const Checkpoint& checkpoint : trial.runs.checkpoints) {
    if (checkpoint.id != attempt.checkpoint) continue;
    launch.checkpoint = checkpoint.manifest;
    launch.iteration_base = checkpoint.iteration;
    launch.time_total_base_s = checkpoint.time_total_s;
  }
}

void FillJob(const World& world, LaunchSpec& launch) {
  JobId id = launch.fence.attempt.owner.job();
  const JobSpec& spec = world.index.jobs.at(id).spec;
  launch.argv = spec.argv;
  launch.env = spec.env;
  launch.bundle = spec.bundle;
  launch.cwd = spec.cwd;
  launch.resources = spec.resources.one();
  launch.name = spec.name;
}

}  // namespace

std::vector<DesiredAttempt> DesiredFor(const World& world, NodeId node) {
  std::vector<DesiredAttempt> desired;
  auto index = world.index.nodes.find(node);
  if (index == world.index.nodes.end()) return desired;
  for (const Fence& fence : index->second.attempts) {
    const Owner& owner = fence.attempt.owner;
    if (owner.is_job()) {
      desired.push_back({fence, world.state.jobs.at(owner.job()).stop_requested, false});
      continue;
    }
    const Trial& trial = *FindTrial(world.state, owner.trial());
    desired.push_back({fence, trial.stop_cause != StopCause::kNone, trial.runs.live()->suspending});
  }
  return desired;
}

LaunchSpec LaunchSpecFor(const World& world, const Fence& fence) {
  const Attempt* attempt = FindLive(world.state, fence.attempt);
  RT_CHECK(attempt != nullptr && fence.rank < attempt->members.size());
  LaunchSpec launch;
  launch.fence = fence;
  launch.world_size = static_cast<uint32_t>(attempt->members.size());
  if (fence.attempt.owner.is_trial()) {
    FillTrial(world, *attempt, launch);
  } else {
    FillJob(world, launch);
  }
  const Member& member = attempt->members[fence.rank];
  for (const GpuInfo& gpu : world.state.nodes.at(member.node).inventory.gpus)
    for (uint32_t chosen : member.gpus)
      if (gpu.index == chosen) launch.gpu_uuids.push_back(gpu.uuid);
  return launch;
}

}  // namespace rt
