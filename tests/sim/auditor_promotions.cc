// The auditor's part about the promotion variant of asynchronous successive halving, from the paper
// and not from common/decide: of the n trials at a rung, the best n / factor continue.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {

const Json* AuditedSpec::ReadPromotion(const Json& scheduler) {
  const Json* options = nullptr;
  for (const char* name : {"asha_promotion", "pasha"})
    if (scheduler.Find(name) != nullptr) options = scheduler.Find(name);
  if (options == nullptr) return nullptr;
  promotes = true;
  is_progressive = options == scheduler.Find("pasha");
  tolerance = options->GetDouble("tolerance", 1);
  checks_ranks = options->GetBool("rank_check");
  return options;
}

// Whether the trials that both rungs have keep their places, but for those within the tolerance.
bool Auditor::IsRankedAlike(const RungBook& lower, const RungBook& upper, double tolerance) {
  std::vector<std::pair<double, double>> common;  // Upper value, lower value.
  double sum = 0, squares = 0;
  for (const auto& [trial, high] : upper)
    for (const auto& [other, low] : lower)
      if (trial == other && !std::isnan(high) && !std::isnan(low)) common.emplace_back(high, low);
  const auto count = static_cast<double>(common.size());
  if (common.size() < 2) return true;
  std::vector<double> places;
  for (const auto& [high, low] : common) {
    places.push_back(low);
    sum += low;
  }
  for (double low : places) squares += (low - sum / count) * (low - sum / count);
  std::sort(places.begin(), places.end());
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < places.size(); ++i)
    if (std::abs(common[i].second - places[i]) > tolerance * std::sqrt(squares / count))
      return false;
  return true;
}

// Spearman's correlation of the trials that both rungs have is below 0.2, and these are enough.
bool Auditor::IsMisleading(const RungBook& lower, const RungBook& upper, double factor) {
  std::vector<std::pair<double, double>> common;
  for (const auto& [trial, high] : upper)
    for (const auto& [other, low] : lower)
      if (trial == other && !std::isnan(high) && !std::isnan(low)) common.emplace_back(low, high);
  const auto count = static_cast<double>(common.size());
  if (count < 3 * factor) return false;
  double xy = 0, xx = 0, yy = 0;
  for (const auto& [low, high] : common) {
    double x = (1 - count) / 2, y = x;  // Their ranks, less the mean rank.
    for (const auto& [other_low, other_high] : common) {
      x += other_low < low ? 1 : other_low == low ? 0.5 : 0;
      y += other_high < high ? 1 : other_high == high ? 0.5 : 0;
    }
    x -= 0.5;  // Itself.
    y -= 0.5;
    xy += x * y;
    xx += x * x;
    yy += y * y;
  }
  return xx > 0 && yy > 0 && xy / std::sqrt(xx * yy) < 0.2;
}

// true: every trial continues at this rung; false: none does; nullopt: the best do.
std::optional<bool> Auditor::GateAt(const ExperimentBook& experiment, uint32_t bracket,
                                    double milestone) {
  const AuditedSpec& spec = experiment.spec;
  std::vector<std::pair<double, const RungBook*>> known;  // From the lowest rung on.
  for (const auto& [where, members] : experiment.members)
    if (where.first == bracket && !members.empty()) known.emplace_back(where.second, &members);
  if (spec.checks_ranks) {
    size_t first = 0;
    while (first + 1 < known.size() &&
           IsMisleading(*known[first].second, *known[first + 1].second, spec.factor))
      ++first;
    if (!known.empty() && milestone < known[first].first) return true;
  }
  if (!spec.is_progressive) return std::nullopt;
  std::vector<double> ladder = spec.Milestones(bracket);
  std::reverse(ladder.begin(), ladder.end());
  std::erase_if(ladder, [&](double at) { return at >= spec.max_t; });
  size_t open = 2;
  for (const auto& [at, members] : known)
    for (size_t i = 0; i < ladder.size(); ++i)
      if (at >= ladder[i] && members->size() >= 2) open = std::max(open, i + 1);
  const auto members_at = [&](size_t i) {
    const auto found = experiment.members.find({bracket, ladder[i]});
    return found == experiment.members.end() ? RungBook() : found->second;
  };
  if (open <= ladder.size() &&
      !IsRankedAlike(members_at(open - 2), members_at(open - 1), spec.tolerance))
    ++open;
  if (open <= ladder.size() && milestone >= ladder[open - 1]) return false;
  return std::nullopt;
}

// Whether the trial is among the best at the highest rung at which it was recorded.
bool Auditor::IsInTop(const ExperimentBook& experiment, uint32_t number) {
  const TrialBook& trial = experiment.trials.at(number);
  if (trial.rungs.empty()) return false;
  return IsInTop(experiment, number,
                 GateAt(experiment, trial.bracket, trial.rungs.rbegin()->first));
}

bool Auditor::IsInTop(const ExperimentBook& experiment, uint32_t number, std::optional<bool> gate) {
  const TrialBook& trial = experiment.trials.at(number);
  if (trial.rungs.empty()) return false;
  const auto& [milestone, value] = *trial.rungs.rbegin();
  if (std::isnan(value)) return false;
  if (gate) return *gate;
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
  return !runs.live && !runs.frozen && runs.last_outcome == AttemptOutcome::kSuspended &&
         std::all_of(all.begin(), all.end(), [](const CheckpointBook& c) { return c.retired; });
}

// No trial runs or waits for nodes, and no other will come.
bool Auditor::IsIdle(const ExperimentBook& experiment) {
  for (const TrialBook& trial : experiment.trials)
    if (trial.runs.live || (!trial.runs.over && !trial.held)) return false;
  return experiment.search_over || experiment.search_finished ||
         experiment.trials.size() == experiment.spec.trials_total;
}

// Its driver creates the trials, and none runs or waits for nodes: it may be waiting for a result.
bool Auditor::SearchMayWait(const ExperimentBook& experiment) {
  if (!experiment.spec.searches) return false;
  for (const TrialBook& trial : experiment.trials)
    if (trial.runs.live || (!trial.runs.over && !trial.held)) return false;
  return true;
}

void Auditor::NoteMember(const event::RungRecorded& e, ExperimentBook& experiment,
                         TrialBook& trial) {
  Must(trial.rungs.rbegin()->first == e.milestone, "a trial goes up from rung to rung");
  trial.gate = GateAt(experiment, e.bracket, e.milestone);
  experiment.members[{e.bracket, e.milestone}].emplace_back(e.trial.number, e.value);
  const auto& all = trial.runs.checkpoints;
  const bool has_none =
      std::all_of(all.begin(), all.end(), [](const CheckpointBook& c) { return c.retired; });
  // While it is paused it is still asked to save.
  const bool may_fall_back =
      experiment.unsaved_pauses > 0 && has_none && !trial.runs.paused && !e.with_checkpoint;
  Must(!e.stopped || may_fall_back, "only a trial that does not save is stopped where it arrives");
  const bool is_promoted = experiment.spec.halves ? IsLastOfBracket(experiment, trial)
                                                  : IsInTop(experiment, e.trial.number, trial.gate);
  if (may_fall_back || is_promoted) trial.promoted.insert(e.milestone);
}

void Auditor::CheckHeld(TrialId id) {
  TrialBook& trial = TrialOf(id);
  Must(!trial.rungs.empty() && !IsInTop(ExperimentOf(id.experiment), id.number, trial.gate),
       "only a trial that is not in the top of its rung is paused");
  trial.held = true;
}

void Auditor::CheckPromotion(TrialId id) {
  const ExperimentBook& experiment = ExperimentOf(id.experiment);
  const TrialBook& trial = TrialOf(id);
  Must(trial.held && trial.runs.paused, "only a trial that the scheduler paused is promoted, once");
  if (IsInTop(experiment, id.number) || HasNoCheckpoint(trial.runs)) return;
  const bool waits = SearchMayWait(experiment);
  Must(waits || IsIdle(experiment), "only a trial in the top of its rung is promoted");
  const auto& [milestone, value] = *trial.rungs.rbegin();
  for (const TrialBook& other : experiment.trials) {
    Must(waits || !other.runs.over || other.end != TrialEnd::kCompleted,
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
  const bool is_idle = IsIdle(experiment), waits = SearchMayWait(experiment);
  for (const StoppedTrial& stopped : e.stopped) {
    TrialBook& trial = TrialOf({e.experiment, stopped.number});
    if (!trial.held) continue;
    trial.held = false;
    if (stopped.cause != StopCause::kEarly) continue;  // It met a rule before it had ended.
    const bool is_unpromotable = waits && std::isnan(trial.rungs.rbegin()->second);
    Must(is_idle || is_unpromotable || HasNoCheckpoint(trial.runs),
         "a paused trial is kept until the search ends");
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
