#include "head/core/apply_freeze.h"

#include <algorithm>

#include "common/base/check.h"
#include "head/core/apply_runs.h"
#include "head/core/index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

ExperimentIndex& IndexOf(World& world, const Owner& owner) {
  return world.index.experiments.at(owner.trial().experiment);
}

}  // namespace

void RequestFreeze(World& world, const event::AttemptFreezeRequested& e, Millis at) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.suspending && !live.freeze.is_wanted() && e.round > live.freeze.round);
  live.freeze.round = e.round;
  live.freeze.requested_at = at;
  live.freeze.refused.clear();
  world.index.freezes.insert(e.attempt);
}

void ApplyFrozen(World& world, const event::AttemptFrozen& e, Millis at) {
  const Owner& owner = e.attempt.owner;
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.freeze.is_wanted() && !live.is_frozen() && live.suspending);
  Vacate(world, e.attempt, live);
  live.suspending = false;
  live.freeze.frozen_at = at;
  Occupy(world, e.attempt, live);
  ExperimentIndex& index = IndexOf(world, owner);
  index.live.erase(owner.number);
  index.pending.insert(owner.number);
  NotePaused(index, *FindTrial(world.state, owner.trial()));
  if (PolicyOf(owner).may_run(world.state, owner)) AddReady(world, owner);
  ReleaseThrottled(world, owner.trial().experiment);
}

void ApplyThawed(World& world, const event::AttemptThawed& e, Millis at) {
  const Owner& owner = e.attempt.owner;
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.is_frozen());
  RemoveReady(world, owner);
  Vacate(world, e.attempt, live);
  EndFreeze(live, at);
  const Runs& runs = *FindRuns(world.state, owner);
  Millis unsaved_from = at - live.freeze.skipped;
  if (!runs.checkpoints.empty() && runs.checkpoints.back().IsOf(live))
    unsaved_from = std::max(unsaved_from, runs.checkpoints.back().committed_at);
  live.freeze.skipped = at - unsaved_from;
  Occupy(world, e.attempt, live);
  ExperimentIndex& index = IndexOf(world, owner);
  index.pending.erase(owner.number);
  index.live.insert(owner.number);
  Throttle(world, owner.trial().experiment);
}

void GiveUpFreeze(World& world, const event::AttemptFreezeGivenUp& e) {
  Attempt& live = LiveOf(world, e.attempt);
  RT_CHECK(live.freeze.is_wanted() && !live.is_frozen());
  live.freeze.requested_at = 0;
  live.freeze.refused = e.reason;
  world.index.freezes.erase(e.attempt);
}

std::vector<Trial*> TrialsWithAttempts(const World& world, Experiment& experiment) {
  std::vector<Trial*> trials;
  const std::set<uint32_t>& live = world.index.experiments.at(experiment.id).live;
  trials.reserve(live.size());
  for (uint32_t number : live) trials.push_back(&experiment.trials.at(number));
  for (const AttemptId& id : world.index.freezes) {
    if (id.owner.trial().experiment != experiment.id) continue;
    Trial& trial = experiment.trials.at(id.owner.number);
    if (trial.runs.running() == nullptr) trials.push_back(&trial);
  }
  return trials;
}

void EndFreeze(Attempt& ended, Millis at) {
  if (ended.is_frozen()) {
    ended.freeze.total += at - ended.freeze.frozen_at;
    ended.freeze.skipped += at - ended.freeze.frozen_at;
  }
  ended.freeze.requested_at = ended.freeze.frozen_at = 0;
}

}  // namespace rt
