// The auditor's part about trials: what they report, where early stopping judges them, what they
// leave.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// The same double, NaN included.
bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::optional<double> LossOf(const Row& row) {
  auto json = Json::Parse(row.metrics);
  if (!json.ok()) return std::nullopt;
  const Json* value = json->Find("loss");
  if (value == nullptr || !value->HasDouble()) return std::nullopt;
  return value->AsDouble();
}

// numpy's nanpercentile with linear interpolation, over sorted values.
double Percentile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return sorted[below] + (sorted[below + 1] - sorted[below]) * part;
}

}  // namespace

AuditedSpec AuditedSpec::FromJob(const std::string& text) {
  AuditedSpec spec;
  auto json = Json::Parse(text);
  Require(json.ok(), "a job's spec in the journal is JSON");
  spec.asks = AuditedAsks::From(json->Find("resources"), 0);
  return spec;
}

AuditedSpec AuditedSpec::FromExperiment(const std::string& text) {
  AuditedSpec spec;
  auto json = Json::Parse(text);
  Require(json.ok(), "an experiment's spec in the journal is JSON");
  spec.asks = AuditedAsks::From(json->Find("resources"), 10'000);
  if (const Json* space = json->Find("space")) {
    for (const auto& [name, domain] : space->object()) {
      if (domain.Find("grid") != nullptr) spec.grid *= domain.Find("grid")->array().size();
    }
  }
  const int64_t samples = json->GetInt("num_samples", 1);
  if (samples > 0) spec.trials_total = spec.grid * static_cast<uint64_t>(samples);
  spec.max_failures = json->GetInt("max_failures");
  spec.max_concurrent = json->GetInt("max_concurrent");
  spec.priority = json->GetInt("priority");
  spec.fail_fast = json->GetBool("fail_fast");
  const Json* mode = json->Find("mode");
  const bool several = mode != nullptr && mode->is_array();
  spec.maximise = (several ? mode->array().front() : Json(json->GetString("mode"))) == Json("max");
  if (const Json* constraints = json->Find("constraints"))
    spec.loss_max = constraints->Find("loss")->GetDouble("<=");
  if (const Json* space = json->Find("space")) spec.space = *space;
  if (const Json* scheduler = json->Find("scheduler")) spec.ReadScheduler(*scheduler);
  spec.strict = json->GetBool("strict_metric", true);
  if (const Json* stop = json->Find("stop"); stop != nullptr && stop->is_string()) {
    const std::string bound = ">= ";
    spec.stop_at = std::stod(stop->AsString().substr(stop->AsString().find(bound) + bound.size()));
    spec.stop_keys.insert("other");
  } else if (stop != nullptr) {
    spec.stop_at = stop->GetDouble("training_iteration");
    for (const auto& [key, threshold] : stop->object())
      if (key != "training_iteration" && !key.ends_with("plateau")) spec.stop_keys.insert(key);
    if (const Json* best = stop->Find("experiment_plateau")) {
      spec.best_std = best->GetDouble("std");
      spec.stop_keys.insert("loss");
    }
    if (const Json* plateau = stop->Find("plateau")) {
      spec.has_plateau = true;
      spec.plateau_std = plateau->GetDouble("std");
      spec.stop_keys.insert("loss");
    }
  }
  if (const Json* keep = json->Find("checkpoints")) {
    spec.keep = keep->GetInt("num_to_keep");
    spec.durable_after = keep->GetString("durable_after", "store");
    spec.scored = keep->GetString("score_attribute") == "loss";
    spec.score_maximise = keep->GetString("score_order", "max") == "max";
  }
  if (const Json* driver = json->Find("driver")) spec.ReadDriver(*driver);
  if (const Json* search = json->Find("search"))
    spec.search = search->is_object() ? search->object().front().first : search->AsString();
  spec.ReadPolicies(*json);
  spec.reallocates = json->Find("reallocation") != nullptr;
  spec.suspends = json->GetBool("suspend");
  spec.time_budget = static_cast<Millis>(json->GetDouble("time_budget", 0) * 1'000);
  return spec;
}

void AuditedSpec::ReadScheduler(const Json& scheduler) {
  const Json* rungs = scheduler.Find("asha");
  if (const Json* promotion = ReadPromotion(scheduler)) rungs = promotion;
  if (const Json* pbt = scheduler.Find("pbt")) ReadPopulation(*pbt);
  if (const Json* pb2 = scheduler.Find("pb2")) {
    ReadPopulation(*pb2);
    explores = true;
  }
  if (const Json* hyperband = scheduler.Find("hyperband")) {
    asha = halves = true;
    max_t = hyperband->GetDouble("max_t", 81);
    factor = hyperband->GetDouble("reduction_factor", 3);
    brackets = 1'000'000;
  }
  if (const Json* median = scheduler.Find("median_stopping"))
    median_from = median->GetDouble("grace_period");
  if (rungs != nullptr) {
    asha = true;
    max_t = rungs->GetDouble("max_t", 100);
    grace = rungs->GetDouble("grace_period", 1);
    factor = rungs->GetDouble("reduction_factor", 4);
    brackets = rungs->GetInt("brackets", 1);
  }
}

std::vector<double> AuditedSpec::Milestones(uint32_t bracket) const {
  std::vector<double> milestones;
  if (halves) {
    const std::vector<AuditedBracket> band = Band();
    const std::vector<double>& rungs = band[bracket % band.size()].rungs;
    return {rungs.rbegin(), rungs.rend()};
  }
  double milestone = grace;
  for (uint32_t skipped = 0; skipped < bracket; ++skipped) milestone *= factor;
  for (; milestone <= max_t; milestone *= factor) milestones.insert(milestones.begin(), milestone);
  return milestones;
}

void Auditor::On(const event::TrialCreated& e) {
  ExperimentBook& experiment = ExperimentOf(e.trial.experiment);
  Must(!experiment.finishing && !experiment.stop_requested, "only an open search proposes");
  Must(!experiment.search_over, "a search that is over proposes nothing");
  Must(!experiment.paused, "a search that is paused proposes nothing");
  Must(e.trial.number == experiment.trials.size(), "trials count up");
  Must(!experiment.spec.trials_total || e.trial.number < *experiment.spec.trials_total,
       "not more trials than were asked for");
  Must(e.bracket < static_cast<uint64_t>(experiment.spec.brackets), "the bracket exists");
  if (experiment.spec.searches) {
    Must(!experiment.search_finished, "a search that is finished suggests no more");
    auto suggested = truth_->suggested.find(e.trial);
    Must(suggested != truth_->suggested.end() && suggested->second.contains(e.params + e.resources),
         "a configuration is what a driver suggested for this trial");
  }
  if (!experiment.spec.searches && experiment.spec.space.is_object()) {
    const absl::StatusOr<Json> params = Json::Parse(e.params);
    Must(params.ok(), "a configuration is JSON");
    CheckShape(experiment.spec.space, *params);
  }
  TrialBook& trial = experiment.trials.emplace_back();
  trial.bracket = e.bracket;
  trial.params = e.params;
  trial.runs.asks = experiment.spec.asks;
  trial.resources = e.resources;
  if (e.resources.empty()) return;
  auto json = Json::Parse(e.resources);
  Must(json.ok() && experiment.spec.searches, "only a driver gives a trial resources of its own");
  trial.runs.asks = AuditedAsks::From(&*json, 10'000);
}

void Auditor::On(const event::TrialStopRequested& e) {
  TrialBook& trial = TrialOf(e.trial);
  ExperimentBook& experiment = ExperimentOf(e.trial.experiment);
  Must(!trial.runs.over, "what is over is not asked to stop");
  Must(!trial.runs.stop_requested, "a trial is asked to stop once");
  Must(e.cause != StopCause::kNone, "a stop has a cause");
  const bool is_advised = truth_->advised_stops.contains(e.trial);
  Must(e.cause != StopCause::kEarly || trial.must_stop || trial.may_stop || is_advised,
       "early stopping stops only who is below the cutoff");
  Must(e.cause != StopCause::kExperiment || experiment.cause == StopCause::kUser ||
           experiment.cause == StopCause::kExperiment || experiment.cause == StopCause::kRule,
       "the experiment was asked to stop");
  Must(e.cause != StopCause::kBudget || experiment.cause == StopCause::kBudget,
       "the experiment's time budget ran out");
  Must(e.cause != StopCause::kUser || truth_->stops.contains(Owner::Of(e.trial)),
       "somebody asked the trial to stop");
  Must((e.cause != StopCause::kRule && e.cause != StopCause::kMaxT) || trial.reached_end ||
           (is_advised && e.cause == StopCause::kRule),
       "a rule stops only who met it");
  Must((e.cause == StopCause::kMetric) == trial.lacks_metric,
       "who leaves the metric out is stopped for that, and nobody else");
  trial.runs.stop_requested = true;
  trial.cause = e.cause;
}

void Auditor::On(const event::TrialEnded& e) {
  TrialBook& trial = TrialOf(e.trial);
  ExperimentBook& experiment = ExperimentOf(e.trial.experiment);
  Must(!trial.runs.over, "each trial has exactly one end");
  Must(!trial.runs.live && !trial.runs.frozen, "a trial that ended has no live attempt");
  trial.runs.over = true;
  trial.end = e.end;
  trial.question.reset();
  const bool by_rule = trial.cause == StopCause::kRule || trial.cause == StopCause::kMaxT;
  const bool by_metric = trial.cause == StopCause::kMetric;
  Must(e.end == TrialEnd::kFailed || !by_metric, "who leaves the metric out is FAILED");
  const int64_t allowed = experiment.spec.max_failures;
  switch (e.end) {
    case TrialEnd::kNone: Must(false, "a trial ends somehow"); break;
    case TrialEnd::kCompleted:
      Must(by_rule || trial.runs.last_outcome == AttemptOutcome::kSucceeded,
           "COMPLETED is who returned or met a rule");
      break;
    case TrialEnd::kStopped:
      Must((trial.runs.stop_requested || experiment.stop_requested) && !by_rule,
           "STOPPED is who was asked to");
      break;
    case TrialEnd::kFailed:
      ++experiment.failed_trials;
      if (trial.runs.last_outcome == AttemptOutcome::kLaunchFailed || by_metric) break;
      Must(trial.runs.must_fail ||
               (trial.runs.last_outcome == AttemptOutcome::kHung &&
                trial.runs.hangs > static_cast<uint64_t>(experiment.spec.hangs_allowed)) ||
               (allowed >= 0 && trial.runs.failures > static_cast<uint64_t>(allowed)),
           "FAILED is who failed more often than it may");
      break;
  }
  Must(e.end == TrialEnd::kFailed || trial.runs.stop_requested || !trial.runs.must_fail,
       "who fails by a rule is FAILED");
  Must(e.end == TrialEnd::kFailed || allowed < 0 || trial.runs.stop_requested ||
           trial.runs.failures <= static_cast<uint64_t>(allowed),
       "who failed more often than it may is FAILED");
}

void Auditor::On(const event::TrialPaused& e) {
  TrialBook& trial = TrialOf(e.trial);
  OwnerBook& runs = trial.runs;
  const AuditedSpec& spec = ExperimentOf(e.trial.experiment).spec;
  // A person and a scheduler may pause it for longer.
  const bool was_paused = runs.paused && !trial.reallocating;
  Must(!runs.over && !runs.stop_requested && !was_paused, "a trial that goes on is paused, once");
  trial.reallocating = e.cause == PauseCause::kResources;
  if (trial.reallocating) return BeginReallocation(e.trial);
  const bool holds = spec.promotes || spec.halves || spec.interval > 0;
  const bool is_held = holds && e.cause == PauseCause::kScheduler;
  if (is_held && spec.interval > 0) CheckTurn(e.trial);
  else if (is_held && spec.halves) CheckWaiting(e.trial);
  else if (is_held) CheckHeld(e.trial);
  const bool is_selectable = spec.selects_next && runs.number == 0;
  const bool is_asked = Asked("pause", ToString(e.trial));
  Must(is_held || is_selectable || is_asked, "somebody asked for the pause");
  runs.paused = true;
  runs.suspending |= runs.live;
}
void Auditor::On(const event::TrialResumed& e) {
  TrialBook& trial = TrialOf(e.trial);
  OwnerBook& runs = trial.runs;
  Must(runs.paused && !runs.over, "a paused trial is resumed");
  Must(trial.held || Asked("resume", ToString(e.trial)), "somebody asked it to go on");
  runs.paused = trial.held = trial.must_pause = trial.reallocating = false;
  if (!trial.rungs.empty()) trial.promoted.insert(trial.rungs.rbegin()->first);
}

void Auditor::On(const event::ReportsAccepted& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(e.rank < owner.asks.ranks, "the rank exists");
  uint64_t& accepted = accepted_[{e.attempt, e.rank}];
  Must(!owner.frozen || e.seq_to <= truth_->runs.at({e.attempt, 0}).frozen_after,
       "a frozen attempt reports nothing: its rows are from before");
  Must(e.seq_to > accepted, "rows are settled once");
  TrialBook* trial = e.attempt.owner.is_trial() ? &Touch(e.attempt.owner.trial()) : nullptr;
  const bool was_stopped = trial != nullptr && trial->runs.stop_requested;
  if (e.count > 0) {
    Must(!was_stopped, "rows after a stop are not kept");
    Must(next_rows_ < rows_->size(), "kept rows come in the same transaction");
    const RowBatch& batch = (*rows_)[next_rows_++];
    CheckRows(e, batch, trial);
    CheckDecided(e, batch);
  } else {
    Must(e.last.seq == 0, "no last row when none was kept");
  }
  const bool is_replaced = trial != nullptr && trial->runs.replaced;
  Must(!is_replaced || e.count == 0, "rows of an attempt that was replaced are not kept");
  if (trial != nullptr && !is_replaced && e.count < e.seq_to - accepted) trial->discarded = true;
  if (trial != nullptr && e.rank == 0) {
    const AuditedSpec& spec = ExperimentOf(e.attempt.owner.trial().experiment).spec;
    CheckBest(e, *trial, spec.maximise, spec.loss_max);
  }
  accepted = e.seq_to;
}

void Auditor::CheckRows(const event::ReportsAccepted& e, const RowBatch& batch, TrialBook* trial) {
  const Fence fence{e.attempt, e.rank};
  Must(batch.attempt == e.attempt && batch.rank == e.rank, "rows stand in the events' order");
  Must(batch.rows.size() == e.count, "as many rows as the event says");
  Must(e.rows_digest.size() == 32, "the digest has 32 bytes");
  auto truth = truth_->runs.find(fence);
  Must(truth != truth_->runs.end(), "rows come from a program that ran");
  uint64_t seq = Accepted(fence);
  for (const Row& row : batch.rows) {
    Must(row.seq == ++seq, "rows are accepted once and in order");
    Must(seq <= e.seq_to, "no row beyond seq_to");
    Must(seq <= truth->second.rows.size() && truth->second.rows[seq - 1] == row,
         "a row is what the program reported");
    if (trial == nullptr) continue;
    Must(row.iteration > trial->runs.base_iteration,
         "no step before a committed checkpoint is repeated");
    if (e.rank != 0) continue;  // Only rank 0's rows decide.
    Must(!trial->reached_end && !trial->lacks_metric, "rows after the end are not kept");
    const AuditedSpec& spec = ExperimentOf(e.attempt.owner.trial().experiment).spec;
    const std::optional<double> loss = LossOf(row);
    trial->lacks_metric = spec.strict && !loss;
    if (spec.stop_at > 0 && row.iteration >= spec.stop_at && !trial->lacks_metric)
      trial->reached_end = true;
    if (spec.asha && loss && row.iteration >= spec.EndOf(trial->bracket)) trial->reached_end = true;
    trial->kept.push_back({OrderOf(e.attempt), row.seq, row.iteration, loss});
    trial->batch_rows.push_back(row);
    if (spec.has_plateau && loss && !trial->lacks_metric)
      trial->reached_end |= IsOnPlateau(spec, *trial, e.attempt);
    if (loss) FollowBest(ExperimentOf(e.attempt.owner.trial().experiment), *trial, row, *loss);
    trial->best_counted_to = std::max(trial->best_counted_to, row.iteration);
    if (spec.median_from > 0 && loss)
      FollowMedian(ExperimentOf(e.attempt.owner.trial().experiment), *trial, row.iteration, *loss);
  }
  const Row& last = batch.rows.back();
  Must(e.last.seq == last.seq && e.last.iteration == last.iteration &&
           e.last.metrics == last.metrics,
       "`last` is the last kept row");
}

// The best of the rows that count: those that a restart superseded do not.
void Auditor::CheckBest(const event::ReportsAccepted& e, const TrialBook& trial, bool maximise,
                        double loss_max) const {
  const KeptRow* best = nullptr;
  for (const KeptRow& row : trial.kept) {
    if (!row.loss || std::isnan(*row.loss) || *row.loss > loss_max) continue;
    const bool better =
        best == nullptr || (maximise ? *row.loss > *best->loss : *row.loss < *best->loss);
    if (better) best = &row;
  }
  Must(e.has_best == (best != nullptr), "there is a best value once one was reported");
  Must(best == nullptr || (e.best == *best->loss && e.best_iteration == best->iteration),
       "the best value is the best of the rows that count");
}

// The rule of asynchronous successive halving, from the papers' words and not from common/decide.
void Auditor::On(const event::RungRecorded& e) {
  TrialBook& trial = Touch(e.trial);
  ExperimentBook& experiment = ExperimentOf(e.trial.experiment);
  const AuditedSpec& spec = experiment.spec;
  if (spec.reads_rungs()) experiment.rung_log[seq_] = {e.trial.number, e.milestone, e.value};
  if (spec.interval > 0) return NoteCompared(e, experiment, trial);
  Must(spec.asha && e.bracket == trial.bracket, "only a bracket's own trials are recorded");
  const std::vector<double> milestones = spec.Milestones(e.bracket);
  Must(std::find(milestones.begin(), milestones.end(), e.milestone) != milestones.end(),
       "the milestone exists");
  Must(trial.rungs.emplace(e.milestone, e.value).second, "once per trial and milestone");
  std::vector<double>& values = experiment.rungs[{e.bracket, e.milestone}];
  const bool pauses = spec.promotes || spec.halves;
  if (pauses) NoteMember(e, experiment, trial);
  if ((!pauses || e.stopped) && !values.empty() && !std::isnan(e.value)) {
    // Larger is better from here on.
    std::vector<double> sorted = values;
    for (double& value : sorted) value = spec.maximise ? value : -value;
    std::sort(sorted.begin(), sorted.end());
    const double own = spec.maximise ? e.value : -e.value;
    const double cutoff = Percentile(sorted, 1 - 1 / spec.factor);
    const double blur = 1e-9 * std::max(1.0, std::abs(cutoff));
    trial.must_stop |= own < cutoff - blur;
    trial.may_stop |= own < cutoff + blur;
  }
  if (!std::isnan(e.value)) values.push_back(e.value);
  trial.batch_rungs.emplace_back(e.milestone, e.value);
  ++rungs_checked_;
}

// The trial, with what it had recorded before this transaction noted.
Auditor::TrialBook& Auditor::Touch(TrialId id) {
  TrialBook& trial = TrialOf(id);
  if (!touched_.insert(id).second) return trial;
  trial.before.clear();
  for (const auto& [milestone, value] : trial.rungs) trial.before.insert(milestone);
  return trial;
}

void Auditor::EndTransaction() {
  for (const TrialId& id : touched_) {
    TrialBook& trial = TrialOf(id);
    CheckTrial(ExperimentOf(id.experiment), trial);
    CheckKeys(id.experiment, trial);
    CheckPromotions(ExperimentOf(id.experiment));
    CheckPlateau(ExperimentOf(id.experiment));
    CheckWaits(ExperimentOf(id.experiment));
    trial.batch_rows.clear();
    trial.batch_rungs.clear();
  }
  touched_.clear();
  Must(new_keys_.empty(), "a key is noted with a row that has it");
  Must(elastic_.unexplained.empty(),
       "an elastic attempt gives up ranks for whoever waits, or because a policy says so");
  CheckBroken();
  CheckDrains();
  CheckResizes();
  CheckSessions();
  for (const Owner& owner : committed_) CheckKept(owner);
  committed_.clear();
  Must(abandoned_.empty(), "a lost checkpoint is retired only when the next attempt is placed");
}

void Auditor::On(const event::StopKeyReported& e) {
  ExperimentBook& experiment = ExperimentOf(e.experiment);
  Must(experiment.spec.stop_keys.contains(e.key), "a key that a stop rule reads is noted");
  Must(experiment.keys_reported.insert(e.key).second, "a key is noted once");
  new_keys_.insert({e.experiment, e.key});
}

// Each key of a stop rule that the trial's new rows have was noted.
void Auditor::CheckKeys(ExperimentId id, const TrialBook& trial) {
  const ExperimentBook& experiment = ExperimentOf(id);
  for (const Row& row : trial.batch_rows) {
    const auto json = Json::Parse(row.metrics);
    for (const std::string& key : experiment.spec.stop_keys) {
      if (!json.ok() || json->Find(key) == nullptr) continue;
      Must(experiment.keys_reported.contains(key), "a key that a row has is noted");
      new_keys_.erase({id, key});
    }
  }
}

void Auditor::CheckTrial(ExperimentBook& experiment, TrialBook& trial) {
  Must(!trial.must_stop || trial.runs.stop_requested || trial.runs.over,
       "who is below the cutoff is stopped");
  Must(!trial.lacks_metric || trial.runs.stop_requested || trial.runs.over,
       "who leaves the metric out is stopped");
  Must(!trial.reached_end || trial.runs.stop_requested || trial.runs.over,
       "who met a rule is stopped");
  Must(!trial.discarded || trial.runs.stop_requested || trial.runs.over,
       "no row is discarded without a stop");
  if (experiment.spec.interval > 0) CheckCompared(experiment.spec, trial);
  Must(!trial.must_pause || trial.runs.paused || trial.runs.over || trial.runs.stop_requested,
       "a trial that others wait for is paused where it was compared");
  trial.must_pause = false;
  if (!experiment.spec.asha) return;
  // One rung a row: the highest that was reached and is not recorded. A row at max_t has none.
  std::set<double> recorded = trial.before;
  size_t next = 0;
  for (const Row& row : trial.batch_rows) {
    const std::optional<double> loss = LossOf(row);
    if (row.iteration >= experiment.spec.EndOf(trial.bracket) || !loss) continue;
    for (double milestone : experiment.spec.Milestones(trial.bracket)) {
      if (row.iteration < milestone) continue;
      const bool is_passed = !recorded.empty() && *recorded.rbegin() >= milestone;
      if ((experiment.spec.promotes || experiment.spec.halves) && is_passed) break;
      if (recorded.contains(milestone)) continue;
      recorded.insert(milestone);
      Must(next < trial.batch_rungs.size() && trial.batch_rungs[next].first == milestone &&
               Same(trial.batch_rungs[next].second, *loss),
           "a row is decided at the highest rung that it reached, with its own value");
      ++next;
      break;
    }
  }
  Must(next == trial.batch_rungs.size(), "a rung is recorded only for a row that reached it");
}

void Auditor::On(const event::CheckpointCommitted& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  const CheckpointBook* last = owner.checkpoints.empty() ? nullptr : &owner.checkpoints.back();
  Must(e.checkpoint > (last == nullptr ? 0 : last->id), "checkpoints count up");
  Must(!owner.replaced, "what an attempt saves after it was replaced is not committed");
  owner.next_checkpoint = e.checkpoint + 1;
  Must(last == nullptr || e.iteration > last->iteration, "a checkpoint never goes back");
  Must(e.seq > owner.saved_seq, "a row's checkpoint is committed once, whatever has become of it");
  CheckBytes(e, owner);
  CheckComplete(e, owner);
  const Fence fence{e.attempt, 0};
  Must(e.seq > 0 && e.seq <= Accepted(fence), "its rows are accepted before");
  const Row& row = truth_->runs.at(fence).rows.at(e.seq - 1);
  Must(e.iteration == row.iteration, "a checkpoint carries its row's iteration");
  std::optional<double> score = LossOf(row);
  if (ExperimentOf(e.attempt.owner.trial().experiment).spec.scored) {
    Must(e.has_score == score.has_value() && (!score || Same(e.score, *score)),
         "a checkpoint carries its row's score");
  }
  if (score && std::isnan(*score)) score.reset();
  owner.checkpoints.push_back({e.checkpoint,
                               OrderOf(e.attempt),
                               e.seq,
                               e.iteration,
                               e.manifest,
                               e.shards,
                               score,
                               false,
                               {e.replicas.begin(), e.replicas.end()}});
  owner.saved_seq = e.seq;
  committed_.insert(e.attempt.owner);
}

}  // namespace rt::sim
