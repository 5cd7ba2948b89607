// Trials as owners of attempts: they report, save, and obey their experiment's rules.
#include <algorithm>
#include <utility>

#include "head/core/apply_runs.h"
#include "head/core/index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

const Trial& TrialOf(const State& state, const Owner& owner) {
  return *FindTrial(state, owner.trial());
}

const Runs* RunsOfTrial(const State& state, const Owner& owner) {
  const Trial* trial = FindTrial(state, owner.trial());
  return trial == nullptr ? nullptr : &trial->runs;
}

void EachTrial(const State& state, const std::function<void(const Owner&)>& visit) {
  for (const auto& [id, experiment] : state.experiments)
    for (const Trial& trial : experiment.trials) visit(Owner::Of(trial.id));
}

bool IsOverNow(const State& state, const Owner& owner) {
  return TrialOf(state, owner).end != TrialEnd::kNone;
}

bool IsStopping(const State& state, const Owner& owner) {
  return TrialOf(state, owner).stop_cause != StopCause::kNone;
}

bool MayRunNow(const State& state, const Owner& owner) {
  return MayRun(state.experiments.at(owner.trial().experiment), TrialOf(state, owner));
}

Millis CreatedAt(const State& state, const Owner& owner) {
  return TrialOf(state, owner).created_at;
}

ExperimentIndex* ExperimentOfTrial(World& world, const Owner& owner) {
  return &world.index.experiments.at(owner.trial().experiment);
}

const std::string& UserOfTrial(const State& state, const Owner& owner) {
  return state.experiments.at(owner.trial().experiment).owner;
}

const ResourceRequest& RequestOfTrial(const World& world, const Owner& owner) {
  const ExperimentIndex& index = world.index.experiments.at(owner.trial().experiment);
  auto own = index.requests.find(owner.trial().number);
  return own == index.requests.end() ? index.spec.resources : own->second;
}

// Paused, also while it is being suspended.
Waiting WhyHeld(const World& world, const Owner& owner) {
  const Trial& trial = TrialOf(world.state, owner);
  const Experiment& experiment = world.state.experiments.at(trial.id.experiment);
  if (trial.end != TrialEnd::kNone) return {};
  // "by alice" is who, anything else is why.
  auto because = [](const std::string& reason) {
    return reason.empty() ? "" : (reason.starts_with("by ") ? " " : ": ") + reason;
  };
  if (trial.pause_cause != PauseCause::kNone)
    return {"paused" + because(trial.pause_reason), trial.pause_cause == PauseCause::kUser
                                                        ? "rt trial resume " + ToString(trial.id)
                                                        : "its scheduler"};
  if (experiment.paused)
    return {"its experiment is paused" + because(experiment.pause_reason),
            "rt exp resume " + std::to_string(experiment.id.value)};
  return {};
}

// What is known of the trial is what the checkpoint has, and the rows of this generation to come.
void Continue(World& world, Trial& trial, const AttemptId& attempt, uint64_t checkpoint) {
  Rewind(trial, checkpoint);
  RefreshBest(world, trial.id);
  trial.lineage.push_back({attempt.number, 0, attempt.generation - 1});
}

void ApplyResizedTrial(World& world, const AttemptId& attempt, uint64_t checkpoint) {
  Continue(world, *FindTrial(world.state, attempt.owner.trial()), attempt, checkpoint);
}

void ApplySize(World& world, const Owner& owner, uint32_t ranks) {
  SizeRequest(*ExperimentOfTrial(world, owner), owner.number, ranks);
}

void ApplyPlaced(World& world, const event::AttemptPlaced& event, Millis at) {
  Trial& trial = *FindTrial(world.state, event.attempt.owner.trial());
  if (trial.runs.next_attempt > 2) {
    Continue(world, trial, event.attempt, event.checkpoint);
  } else {
    trial.lineage.push_back({event.attempt.number, 0});
  }
  ExperimentIndex& index = world.index.experiments.at(trial.id.experiment);
  index.pending.erase(trial.id.number);
  index.live.insert(trial.id.number);
  Throttle(world, trial.id.experiment);
  Experiment& experiment = world.state.experiments.at(trial.id.experiment);
  if (experiment.started_at == 0) experiment.started_at = at;
}

void ApplyEnded(World& world, const Owner& owner) {
  ExperimentIndex& index = *ExperimentOfTrial(world, owner);
  index.live.erase(owner.number);
  index.pending.insert(owner.number);
  const Trial& trial = TrialOf(world.state, owner);
  NotePaused(index, trial);
  if (index.paused.contains(owner.number) && trial.is_unsaved())
    ++world.state.experiments.at(trial.id.experiment).unsaved_pauses;
}

void ApplyRowsOfTrial(World& world, const event::ReportsAccepted& event, Attempt& live) {
  if (event.rank != 0 || event.count == 0) return;
  Trial& trial = *FindTrial(world.state, event.attempt.owner.trial());
  trial.last = event.last;
  trial.reports += event.count;
  for (const CurveRow& row : event.curve) AddToCurve(row, trial.curve);
  if (!event.plateau.empty())
    trial.plateau =
        Extended(world.index.experiments.at(trial.id.experiment).spec.plateau, trial.plateau,
                 event.attempt.number, event.attempt.generation, event.plateau);
  const ExperimentId id = trial.id.experiment;
  const ExperimentPlateauRule& ends_search = world.index.experiments.at(id).spec.experiment_plateau;
  if (!event.experiment_plateau.empty()) {
    BestValues& best = world.state.experiments.at(id).best_values;
    best = Extended(ends_search, std::move(best), event.experiment_plateau);
  }
  // Also by rows without the metric: what counts must not depend on which rows came together.
  if (ends_search.is_given())
    trial.plateau_counted_to = std::max(trial.plateau_counted_to, event.last.iteration);
  if (event.has_best && !(trial.has_best && trial.best == event.best)) {
    trial.has_best = true;
    trial.best = event.best;
    trial.best_iteration = event.best_iteration;
    RefreshBest(world, trial.id);
  }
  if (!event.reported_with_checkpoint) return;
  NoteCheckpointRow(live, {event.last.seq, trial.last, trial.reports, trial.has_best, trial.best,
                           trial.best_iteration});
}

void ApplyCheckpointOfTrial(World& world, const event::CheckpointCommitted& event,
                            Checkpoint& checkpoint) {
  const Trial& trial = TrialOf(world.state, event.attempt.owner);
  CheckpointRow known{event.seq,      trial.last, trial.reports,
                      trial.has_best, trial.best, trial.best_iteration};
  const CheckpointRow* row = LiveOf(world, event.attempt).CheckpointRowAt(event.seq);
  if (row != nullptr) known = *row;
  checkpoint.last = known.last;
  checkpoint.reports = known.reports;
  checkpoint.has_best = known.has_best;
  checkpoint.best = known.best;
  checkpoint.best_iteration = known.best_iteration;
}

void ReindexExperiments(World& world) {
  for (const auto& [id, experiment] : world.state.experiments) ReindexExperiment(world, experiment);
}

}  // namespace

const OwnerPolicy kTrialPolicy = {
    .kind = Owner::Kind::kTrial,
    .runs = RunsOfTrial,
    .each = EachTrial,
    .is_over = IsOverNow,
    .is_stopping = IsStopping,
    .may_run = MayRunNow,
    .created_at = CreatedAt,
    .user = UserOfTrial,
    .request = RequestOfTrial,
    .experiment = ExperimentOfTrial,
    .why_held = WhyHeld,
    .trial = [](const State& state, const Owner& owner) { return FindTrial(state, owner.trial()); },
    .apply_placed = ApplyPlaced,
    .apply_ended = ApplyEnded,
    .apply_size = ApplySize,
    .apply_resized = ApplyResizedTrial,
    .apply_rows = ApplyRowsOfTrial,
    .apply_checkpoint = ApplyCheckpointOfTrial,
    .reindex = ReindexExperiments,
    .after_attempt = AfterTrialAttempt,
    .fill_launch = FillTrial,
};

}  // namespace rt
