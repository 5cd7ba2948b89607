// The auditor's part about the promotion variant of asynchronous successive halving, from the paper
// and not from common/decide: of the n trials at a rung, the best n / factor continue.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {

// Whether the trial is among the best at the highest rung at which it was recorded.
bool Auditor::IsInTop(const ExperimentBook& experiment, uint32_t number) {
  const TrialBook& trial = experiment.trials.at(number);
  if (trial.rungs.empty()) return false;
  const auto& [milestone, value] = *trial.rungs.rbegin();
  if (std::isnan(value)) return false;
  const auto& members = experiment.members.at({trial.bracket, milestone});
  const double sign = experiment.spec.maximise ? -1 : 1;
  size_t better = 0;
  bool is_earlier = true;
  for (const auto& [other, theirs] : members) {
    if (other == number) is_earlier = false;
    else if (sign * theirs < sign * value || (theirs == value && is_earlier)) ++better;
  }
  const double places = std::floor(static_cast<double>(members.size()) / experiment.spec.factor);
  return static_cast<double>(better) < places;
}

// It was asked to save and end, and ended without: it would begin again.
bool Auditor::HasNoCheckpoint(const OwnerBook& runs) {
  const auto& all = runs.checkpoints;
  return !runs.live && runs.last_outcome == AttemptOutcome::kSuspended &&
         std::all_of(all.begin(), all.end(), [](const CheckpointBook& c) { return c.retired; });
}

// No trial runs or waits for nodes, and no other will come.
bool Auditor::IsIdle(const ExperimentBook& experiment) {
  for (const TrialBook& trial : experiment.trials)
    if (trial.runs.live || (!trial.runs.over && !trial.held)) return false;
  return experiment.search_over || experiment.search_finished ||
         experiment.trials.size() == experiment.spec.trials_total;
}

void Auditor::NoteMember(const event::RungRecorded& e, ExperimentBook& experiment,
                         TrialBook& trial) {
  Must(trial.rungs.rbegin()->first == e.milestone, "a trial goes up from rung to rung");
  experiment.members[{e.bracket, e.milestone}].emplace_back(e.trial.number, e.value);
  const auto& all = trial.runs.checkpoints;
  const bool has_none =
      std::all_of(all.begin(), all.end(), [](const CheckpointBook& c) { return c.retired; });
  // While it is paused it is still asked to save.
  const bool may_fall_back =
      experiment.unsaved_pauses > 0 && has_none && !trial.runs.paused && !e.with_checkpoint;
  Must(!e.stopped || may_fall_back, "only a trial that does not save is stopped where it arrives");
  const bool is_promoted = experiment.spec.halves ? IsLastOfBracket(experiment, trial)
                                                  : IsInTop(experiment, e.trial.number);
  if (may_fall_back || is_promoted) trial.promoted.insert(e.milestone);
}

void Auditor::CheckHeld(TrialId id) {
  TrialBook& trial = TrialOf(id);
  Must(!trial.rungs.empty() && !IsInTop(ExperimentOf(id.experiment), id.number),
       "only a trial that is not in the top of its rung is paused");
  trial.held = true;
}

void Auditor::CheckPromotion(TrialId id) {
  const ExperimentBook& experiment = ExperimentOf(id.experiment);
  const TrialBook& trial = TrialOf(id);
  Must(trial.held && trial.runs.paused, "only a trial that the scheduler paused is promoted, once");
  if (IsInTop(experiment, id.number) || HasNoCheckpoint(trial.runs)) return;
  Must(IsIdle(experiment), "only a trial in the top of its rung is promoted");
  const auto& [milestone, value] = *trial.rungs.rbegin();
  for (const TrialBook& other : experiment.trials) {
    Must(!other.runs.over || other.end != TrialEnd::kCompleted,
         "once a trial was trained to its end, no other needs to be");
    Must(!other.held || other.runs.over || std::isnan(other.rungs.rbegin()->second) ||
             other.rungs.rbegin()->first <= milestone,
         "of the trials that are left the best of the highest rung continues");
  }
}

// Each trial that the answer stops has lost its checkpoint, or is left over at the end, or is
// decided by the stopping variant where it has just been recorded.
void Auditor::CheckUnpromoted(const event::Answered& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  const bool is_idle = IsIdle(experiment);
  for (const StoppedTrial& stopped : e.stopped) {
    TrialBook& trial = TrialOf({e.experiment, stopped.number});
    if (!trial.held) continue;
    trial.held = false;
    if (stopped.cause != StopCause::kEarly) continue;  // It met a rule before it had ended.
    Must(is_idle || HasNoCheckpoint(trial.runs), "a paused trial is kept until the search ends");
    trial.may_stop = true;
  }
}

// After a transaction: what is in the top of its rung continues, and what is not is paused.
void Auditor::CheckPromotions(const ExperimentBook& experiment) const {
  if (!experiment.spec.promotes) return;
  for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
    const TrialBook& trial = experiment.trials[number];
    if (trial.rungs.empty() || trial.runs.over || trial.runs.stop_requested) continue;
    Must(!trial.held || !IsInTop(experiment, number), "a trial in the top of its rung is resumed");
    Must(trial.runs.paused || trial.promoted.contains(trial.rungs.rbegin()->first),
         "a trial that is not in the top of its rung is paused");
  }
}

}  // namespace rt::sim
