#include "head/core/apply_clones.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "head/core/index.h"

namespace rt {
namespace {

// As if the trial had saved it after its newest row. What the trial has reported stays; its best
// value is that of the rows to come, which have the new configuration.
Checkpoint CopyFor(const Trial& trial, const Checkpoint& parent, Millis at) {
  Checkpoint copy = parent;
  copy.id = trial.runs.next_checkpoint;
  copy.committed_at = at;
  copy.reports = trial.reports;
  copy.has_best = false;
  copy.best = copy.best_iteration = 0;
  copy.attempt = copy.resizes = 0;
  copy.seq = 0;
  if (trial.runs.attempts.empty()) return copy;
  const Attempt& newest = trial.runs.attempts.back();
  copy.attempt = newest.number;
  copy.resizes = newest.resizes();
  copy.seq = newest.accepted.front();
  return copy;
}

}  // namespace

void ApplyClone(World& world, ExperimentId id, const ClonedTrial& clone, Millis at) {
  Experiment& experiment = world.state.experiments.at(id);
  Trial& trial = experiment.trials.at(clone.number);
  const std::vector<Checkpoint>& theirs = experiment.trials.at(clone.from).runs.checkpoints;
  const auto parent = std::find_if(theirs.begin(), theirs.end(), [&](const Checkpoint& one) {
    return one.id == clone.checkpoint;
  });
  RT_CHECK_BECAUSE(parent != theirs.end(), "a clone's checkpoint is pinned until it is taken");
  Checkpoint copy = CopyFor(trial, *parent, at);
  trial.clones.push_back(
      {clone.from, clone.checkpoint, copy.iteration, at, trial.params, copy.attempt});
  if (trial.clones.size() > limits::kClonesKept) trial.clones.erase(trial.clones.begin());
  ++trial.cloned;
  trial.open_clone = {};
  trial.plateau_counted_to = 0;  // Its next rows are of another training.
  // The configurations that were made of its own are those of what it no longer continues.
  for (Trial& other : experiment.trials)
    if (other.open_clone.seq != 0 && other.open_clone.from == clone.number) other.open_clone = {};
  trial.params = clone.params;
  trial.has_best = false;
  trial.best = trial.best_iteration = 0;
  // Nor does the best value come back if its older checkpoints are needed.
  for (Checkpoint& older : trial.runs.checkpoints) {
    older.has_best = false;
    older.best = older.best_iteration = 0;
  }
  ++trial.runs.next_checkpoint;
  CountReplicas(world, copy.replicas, 1);
  trial.runs.checkpoints.push_back(std::move(copy));
  RefreshBest(world, trial.id);
  Attempt* live = trial.runs.live();
  if (live == nullptr) return;
  live->suspending = live->replaced = true;
  live->checkpoint_rows.clear();
  live->shards.clear();
}

void ApplyAnswer(World& world, const event::Answered& e, uint64_t seq) {
  Experiment& experiment = world.state.experiments.at(e.experiment);
  if (e.session != 0 && world.index.experiments.at(e.experiment).spec.driver.explores)
    for (Trial& trial : experiment.trials)
      if (trial.open_clone.seq <= e.observed_through) trial.open_clone = {};
  for (const AskedClone& asked : e.asked)
    experiment.trials.at(asked.number).open_clone = {seq, asked.from, asked.params};
  for (const AllocatedTrial& given : e.allocated)
    experiment.trials.at(given.number).allocation = {given.resources, given.normal_resources,
                                                     given.spec_format};
}

event::TrialResumed ApplyReallocated(World& world, const event::TrialReallocated& e) {
  Trial& trial = world.state.experiments.at(e.trial.experiment).trials.at(e.trial.number);
  RT_CHECK(trial.pause_cause == PauseCause::kResources && trial.runs.live() == nullptr);
  trial.resources = e.resources;
  trial.normal_resources = e.normal_resources;
  trial.spec_format = e.spec_format;
  if (e.resources == trial.allocation.resources) trial.allocation = {};
  ExperimentIndex& index = world.index.experiments.at(e.trial.experiment);
  index.requests.erase(e.trial.number);
  TakeOwn(index, trial);
  return {e.trial};
}

}  // namespace rt
