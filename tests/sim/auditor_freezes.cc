// The auditor's part about attempts that are frozen in place: which may be, what they hold, and
// where they continue.
#include "tests/sim/auditor.h"

namespace rt::sim {

void Auditor::On(const event::AttemptFreezeRequested& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(e.attempt.owner.is_trial() && ExperimentOf(e.attempt.owner.trial().experiment).spec.suspends,
       "only trials of an experiment that asks for it are frozen");
  Must(owner.suspending && owner.live && !owner.freezing,
       "only a running attempt that was asked to save and end is to be frozen, once");
  Must(owner.asks.bundles.size() == 1 && owner.asks.ranks_max == 0, "one rank is frozen");
  Must(owner.started.contains(0), "only what runs is frozen");
  Must(!backfill_next_.contains(e.attempt), "nobody waits for its end");
  Must(e.round == owner.freeze_round + 1, "freezes of an attempt are counted");
  owner.freeze_round = e.round;
  owner.freezing = true;
}

void Auditor::On(const event::AttemptFrozen& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(owner.freezing && owner.live, "only what was to be frozen is frozen");
  const auto run = truth_->runs.find({e.attempt, 0});
  Must(run != truth_->runs.end() && run->second.frozen_rounds.contains(owner.freeze_round),
       "a frozen attempt has stopped, for this freeze");
  const Member& member = owner.members.front();
  Return(member, owner.asks.bundles.front());
  owner.live = owner.freezing = owner.suspending = false;
  owner.frozen = true;
  --ExperimentOf(e.attempt.owner.trial().experiment).live;
}

void Auditor::On(const event::AttemptThawed& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  ExperimentBook& experiment = ExperimentOf(e.attempt.owner.trial().experiment);
  Must(owner.frozen, "only a frozen attempt is thawed");
  Must(!owner.paused && !owner.stop_requested && !experiment.paused && !owner.replaced,
       "only what may run is thawed");
  // On its node, on its gpus: they are free, and the node takes work.
  Take(owner.members.front(), e.attempt, owner.asks.bundles.front());
  owner.live = true;
  owner.frozen = false;
  ++experiment.live;
  Must(experiment.spec.max_concurrent == 0 || experiment.live <= experiment.spec.max_concurrent,
       "max_concurrent holds");
}

void Auditor::On(const event::AttemptFreezeGivenUp& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(owner.freezing && owner.live && owner.suspending, "only a freeze under way is given up");
  Must(!e.reason.empty(), "it says why");
  owner.freezing = false;
}

// It was ended where it was.
void Auditor::CheckFrozenEnd(const event::AttemptEnded& e, const OwnerBook& owner) const {
  if (owner.replaced) return;
  if (e.outcome == AttemptOutcome::kPreempted) {
    Must(nodes_.at(owner.members.front().node).draining, "its node drains");
    return;
  }
  Must(Waits(owner), "only who may run is ended to run elsewhere");
  Must(nodes_.size() > 1, "there is another node");
}

}  // namespace rt::sim
