// What is legal where experiments have different priorities.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {

bool Auditor::Waits(const OwnerBook& runs) {
  return !runs.live && !runs.over && !runs.paused && !runs.stop_requested;
}

void Auditor::On(const event::PreemptionRequested& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(e.attempt.owner.is_trial(), "only trials are preempted");
  const AuditedSpec& of = ExperimentOf(e.attempt.owner.trial().experiment).spec;
  const ExperimentBook& by = ExperimentOf(e.by);
  Must(by.spec.priority > of.priority, "a lower priority is preempted");
  Must(!by.finishing && !by.stop_requested && !by.paused, "an open search preempts");
  Must(std::any_of(by.trials.begin(), by.trials.end(),
                   [](const TrialBook& trial) { return Waits(trial.runs); }),
       "a trial waits for the preempted capacity");
  Must(owner.live && !owner.suspending && !owner.stop_requested,
       "an attempt that ends anyway is not preempted");
  owner.suspending = true;
}

bool Auditor::MayAvoidLinks(const ExperimentBook& experiment) const {
  return std::any_of(slow_links_.begin(), slow_links_.end(), [&](const auto& link) {
    return link.second.gbps < experiment.spec.link_gbps_least;
  });
}

// Of those that ask for the same, one of lower priority has just been placed.
void Auditor::CheckFirst(TrialId id) const {
  const ExperimentBook& mine = experiments_.at(id.experiment);
  const AuditedAsks& asks = mine.trials.at(id.number).runs.asks;
  for (const auto& [other, experiment] : experiments_) {
    const bool is_open = !experiment.finishing && !experiment.stop_requested &&
                         !experiment.paused && experiment.spec.max_concurrent == 0;
    if (!is_open || experiment.spec.priority <= mine.spec.priority) continue;
    for (const TrialBook& trial : experiment.trials)
      Must(!Waits(trial.runs) || trial.runs.frozen || !trial.runs.excluded.empty() ||
               MayAvoidLinks(experiment) || trial.runs.asks.text != asks.text,
           "the higher priority goes first");
  }
}

}  // namespace rt::sim
