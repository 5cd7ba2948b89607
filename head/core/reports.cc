// Reports: rows beside the journal, and what they decide as events. Rows are settled in order of
// seq; a row after the one that stopped the trial is settled but not kept.
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/reported.h"
#include "head/core/answers.h"
#include "head/core/owner_policy.h"
#include "head/core/rows_digest.h"

namespace rt {
namespace {

// Where a row is in its trial.
struct Position {
  AttemptId attempt;
  uint64_t seq = 0;
  bool with_checkpoint = false;
  std::optional<double> best;  // Of the trial, up to the row.
  bool on_plateau = false;     // By the rule for trials.
  bool ends_search = false;    // By the plateau rule of the experiment.
};

// What a row decides about its trial: a rule of the experiment stops it, or its scheduler decides.
struct Decision {
  StopCause cause = StopCause::kNone;
  std::string reason;
  TrialVerdict verdict = {};
  bool ends_search = false;  // The same rule stops its experiment.
  bool lifts_pause = false;  // A later rung than that which paused the trial lets it continue.

  bool stops() const {
    return cause != StopCause::kNone || verdict.action == TrialVerdict::Action::kStop ||
           verdict.action == TrialVerdict::Action::kComplete;
  }
  bool is_made() const { return stops() || verdict.action == TrialVerdict::Action::kPause; }
};

// What its scheduler decides about a row, with the rung at which it was recorded.
Decision Schedule(Draft& draft, const Trial& trial, const RowView& view, const Position& position) {
  RowVerdict row = OnRow(draft.core.world, trial, view, position.best);
  if (!row.milestone) return {.verdict = std::move(row.verdict)};
  TrialVerdict verdict =
      DecideAt(draft.core.world, trial.id, *row.milestone, row.value, position.with_checkpoint);
  const bool stops = verdict.action == TrialVerdict::Action::kStop;
  draft.Emit(event::RungRecorded{trial.id, trial.bracket, *row.milestone, row.value, stops,
                                 position.attempt.number, position.seq,
                                 position.attempt.generation - 1, position.with_checkpoint});
  const bool lifts_pause = draft.index().experiments.at(trial.id.experiment).chosen.reviews;
  return {.verdict = std::move(verdict), .lifts_pause = lifts_pause};
}

// The keys without which a stop rule or the scheduler sees nothing in a row.
void NoteStopKeys(Draft& draft, const Trial& trial, const ExperimentSpec& spec,
                  const RowView& view) {
  const ExperimentId id = trial.id.experiment;
  auto note = [&](const std::string& key) {
    const auto& known = draft.state().experiments.at(id).keys_reported;
    if (IsCounter(key) || std::binary_search(known.begin(), known.end(), key)) return;
    if (RowValue(view, key).has_value()) draft.Emit(event::StopKeyReported{id, key});
  };
  for (const StopRule& rule : spec.stop) note(rule.key);
  if (spec.plateau.is_given()) note(spec.plateau.metric);
  if (spec.experiment_plateau.is_given()) note(spec.experiment_plateau.metric);
  for (const std::string& name : draft.index().experiments.at(id).stop_names) note(name);
  for (const NamedMetric& named : draft.index().experiments.at(id).chosen.scheduler_metrics)
    note(named.metric);
}

// With a report_regex each line is a row, and the metric may be in another line: a trial fails once
// it has this many rows and the metric was in none.
constexpr uint64_t kLinesWithoutMetric = 20;

std::optional<std::string> StrictProblem(const Trial& trial, const ExperimentSpec& spec,
                                         const RowView& view,
                                         const event::ReportsAccepted& accepted) {
  if (!spec.strict_metric) return std::nullopt;
  const bool waits = accepted.has_best || trial.reports + accepted.count < kLinesWithoutMetric;
  if (!spec.report_regex.empty() && waits) return std::nullopt;
  const std::vector<std::string> keys = spec.OutcomeKeys();
  if (keys.empty()) return MetricProblem(view, spec.metric);
  for (const std::string& key : keys)
    if (const std::optional<std::string> problem = MetricProblem(view, key))
      return *problem + " (at step " + Json(static_cast<int64_t>(view.iteration)).Dump() + ")";
  return std::nullopt;
}

std::string PlateauText(const ExperimentPlateauRule& rule) {
  return "the " + std::to_string(rule.top) + " best values of " + rule.metric + " are a plateau";
}

Decision DecideRow(Draft& draft, const Trial& trial, const ExperimentSpec& spec,
                   const RowView& view, const Position& position) {
  if (const StopRule* rule = MetRule(spec.stop, view))
    return {StopCause::kRule, "met the stop rule on " + rule->key};
  if (spec.stop_when.IsMet(view))
    return {StopCause::kRule, "met the stop rule " + Excerpt(spec.stop_when.text)};
  if (position.on_plateau)
    return {StopCause::kRule, "the last " + std::to_string(spec.plateau.num_results) +
                                  " values of " + spec.plateau.metric + " are a plateau"};
  if (position.ends_search) return {StopCause::kRule, PlateauText(spec.experiment_plateau)};
  return Schedule(draft, trial, view, position);
}

// Whether the row's value, which is noted in the event, makes a plateau of the trial's newest ones.
bool ReachesPlateau(const Trial& trial, const PlateauRule& rule, const RowView& view,
                    event::ReportsAccepted& accepted) {
  if (!rule.is_given()) return false;
  const std::optional<double> value = RowValue(view, rule.metric);
  if (!value) return false;
  accepted.plateau.push_back(*value);
  const AttemptId& attempt = accepted.attempt;
  return IsPlateau(
      rule, Extended(rule, trial.plateau, attempt.number, attempt.generation, accepted.plateau));
}

// The same for the best values of the experiment. The row of a trial that is retried after its
// search has ended ends nothing, and one that was repeated after a restart is counted already.
bool ReachesPlateau(const Experiment& experiment, const Trial& trial,
                    const ExperimentPlateauRule& rule, const RowView& view,
                    event::ReportsAccepted& accepted) {
  if (!rule.is_given() || experiment.search.over) return false;
  const std::optional<double> value = RowValue(view, rule.metric);
  if (!value || view.iteration <= trial.plateau_counted_to) return false;
  accepted.experiment_plateau.push_back(*value);
  return IsPlateau(rule, Extended(rule, experiment.best_values, accepted.experiment_plateau));
}

// A row that lacks the key of a constraint does not keep it.
bool Keeps(const std::vector<StopRule>& constraints, const RowView& view) {
  return std::all_of(constraints.begin(), constraints.end(), [&](const StopRule& rule) {
    const std::optional<double> value = RowValue(view, rule.key);
    return value && (rule.at_most ? *value <= rule.threshold : *value >= rule.threshold);
  });
}

void NoteBest(const ExperimentSpec& spec, const RowView& view, event::ReportsAccepted& accepted) {
  if (spec.metric.empty()) return;
  std::optional<double> value = RowValue(view, spec.metric);
  if (!value || std::isnan(*value) || !Keeps(spec.constraints, view)) return;
  bool better = !accepted.has_best || (spec.mode == Mode::kMax ? *value > accepted.best
                                                               : *value < accepted.best);
  if (!better) return;
  accepted.has_best = true;
  accepted.best = *value;
  accepted.best_iteration = view.iteration;
}

// The row's point of the trial's curve, where its scheduler compares curves.
void NoteCurve(const ChosenAlgorithms& chosen, const Trial& trial, const ExperimentSpec& spec,
               const RowView& view, event::ReportsAccepted& accepted) {
  if (!chosen.curves_from) return;
  const std::optional<double> t = RowValue(view, chosen.LimitsOf(trial.bracket).time_attr);
  const std::optional<double> value = RowValue(view, spec.metric);
  if (!t || !value || !std::isfinite(*t) || *t < *chosen.curves_from) return;
  accepted.curve.push_back({*t, *value});
}

// Collects what one batch of rows becomes.
struct Acceptance {
  event::ReportsAccepted event;
  RowBatch kept;
  Decision decision;

  void Keep(const Row& row) {
    kept.rows.push_back(row);
    ++event.count;
  }
  // The event, once every row was looked at.
  event::ReportsAccepted Settle(uint64_t seq_to) {
    event.seq_to = seq_to;
    event.rows_digest = RowsDigest(kept.rows);
    if (kept.rows.empty()) return std::move(event);
    const Row& last = kept.rows.back();
    event.last = {last.seq, last.iteration, last.time_total_s, last.timestamp, last.metrics};
    return std::move(event);
  }
};

void ConsiderRow(Draft& draft, const Trial& trial, const ExperimentSpec& spec, const Row& row,
                 bool with_checkpoint, Acceptance& acceptance) {
  auto metrics = Json::Parse(row.metrics);
  Json empty = Json::MakeObject();
  RowView view{metrics.ok() ? *metrics : empty, row.iteration, row.time_total_s};
  NoteBest(spec, view, acceptance.event);
  NoteStopKeys(draft, trial, spec, view);
  std::optional<std::string> problem = StrictProblem(trial, spec, view, acceptance.event);
  NoteCurve(draft.index().experiments.at(trial.id.experiment).chosen, trial, spec, view,
            acceptance.event);
  Position position{acceptance.kept.attempt, row.seq, with_checkpoint};
  if (acceptance.event.has_best) position.best = acceptance.event.best;
  position.on_plateau = ReachesPlateau(trial, spec.plateau, view, acceptance.event);
  position.ends_search = ReachesPlateau(draft.state().experiments.at(trial.id.experiment), trial,
                                        spec.experiment_plateau, view, acceptance.event);
  Decision decision = problem ? Decision{StopCause::kMetric, *std::move(problem)}
                              : DecideRow(draft, trial, spec, view, position);
  decision.ends_search = position.ends_search;
  // A pause outlives the rows that come after it in the batch.
  if (decision.is_made() || decision.lifts_pause) acceptance.decision = std::move(decision);
}

// After the rows were accepted.
void Follow(Draft& draft, const Trial* trial, const Decision& decision) {
  if (!decision.is_made()) return;
  if (decision.cause != StopCause::kNone) {
    const ExperimentId id = trial->id.experiment;
    RequestStop(draft, trial->id, decision.cause, decision.reason);
    if (decision.ends_search)
      StopExperiment(draft, id, StopCause::kRule,
                     PlateauText(draft.index().experiments.at(id).spec.experiment_plateau));
    return;
  }
  EmitAnswer(draft, VerdictOn(draft.core.world, trial->id, decision.verdict));
}

}  // namespace

ReportVerdict AcceptRows(Draft& draft, NodeId node, const RowBatch& batch, bool with_checkpoint) {
  ReportVerdict verdict{.fence = {batch.attempt, batch.rank}};
  const Attempt* live = FindLive(draft.state(), batch.attempt);
  bool here = live != nullptr && batch.rank < live->members.size() &&
              (node.value == 0 || live->members[batch.rank].node == node);
  if (!here) {
    verdict.stale = true;
    return verdict;
  }
  const Owner& owner = batch.attempt.owner;
  const Trial* trial = ReportingTrial(draft.state(), owner);
  const ExperimentSpec* spec =
      trial == nullptr ? nullptr : &draft.index().experiments.at(trial->id.experiment).spec;
  uint64_t settled = live->accepted[batch.rank];
  Acceptance acceptance;
  acceptance.event = {.attempt = batch.attempt, .rank = batch.rank};
  acceptance.kept = {batch.attempt, batch.rank, {}};
  if (trial != nullptr) {
    acceptance.event.has_best = trial->has_best;
    acceptance.event.best = trial->best;
    acceptance.event.best_iteration = trial->best_iteration;
  }
  const size_t rungs = trial == nullptr ? 0 : trial->milestones.size();
  bool stopping = trial == nullptr || trial->stop_cause != StopCause::kNone || live->replaced;
  for (const Row& row : batch.rows) {
    if (row.seq <= settled) continue;   // Sent again: its answer was lost.
    if (row.seq != settled + 1) break;  // A gap: the worker sends from acked_seq again.
    settled = row.seq;
    if (stopping) continue;
    acceptance.Keep(row);
    const bool is_saved = with_checkpoint && row.seq == batch.rows.back().seq;
    if (batch.rank == 0) ConsiderRow(draft, *trial, *spec, row, is_saved, acceptance);
    if (!acceptance.decision.stops()) continue;
    stopping = true;
    verdict.stop_seq = row.seq;
  }
  verdict.acked_seq = settled;
  if (settled > live->accepted[batch.rank]) {
    const std::vector<Row>& kept = acceptance.kept.rows;
    // For another rank it announces a shard, also with a row that is not kept.
    const bool is_last = !kept.empty() && kept.back().seq == batch.rows.back().seq;
    acceptance.event.reported_with_checkpoint = with_checkpoint && (batch.rank != 0 || is_last);
    draft.Emit(acceptance.Settle(settled));
    if (!acceptance.kept.rows.empty()) draft.out.rows.push_back(std::move(acceptance.kept));
    Follow(draft, trial, acceptance.decision);
    trial = ReportingTrial(draft.state(), owner);  // Others may have been created.
    if (trial != nullptr && trial->milestones.size() > rungs)
      ReviewTrials(draft, trial->id.experiment, trial->id.number);
    trial = ReportingTrial(draft.state(), owner);
    const bool has_saved = trial != nullptr && batch.rank == 0 && with_checkpoint && is_last;
    if (has_saved) ConsiderReallocation(draft, batch.attempt, settled);
  }
  if (trial != nullptr && trial->stop_cause != StopCause::kNone) {
    verdict.stop = true;
    verdict.reason = trial->stop_reason;
  }
  live = FindLive(draft.state(), batch.attempt);
  verdict.suspend = live != nullptr && live->suspending && !live->freeze.is_wanted();
  if (live != nullptr && live->replaced && !verdict.stop) {
    verdict.stop = true;
    verdict.reason =
        "it continues from a checkpoint of trial " + std::to_string(trial->clones.back().from);
  }
  return verdict;
}

namespace {

// An event ends at each row that comes with a checkpoint, which needs the trial's values at it.
ReportVerdict AcceptParts(Draft& draft, const input::Report& report, const RowBatch& batch) {
  ReportVerdict verdict;
  RowBatch part{batch.attempt, batch.rank, {}};
  uint64_t stop_seq = 0;
  for (size_t i = 0; i <= batch.rows.size(); ++i) {
    const bool at_end = i == batch.rows.size();
    const bool with_checkpoint = !at_end && report.rows_with_checkpoint.contains(
                                                {{batch.attempt, batch.rank}, batch.rows[i].seq});
    if (!at_end) part.rows.push_back(batch.rows[i]);
    if (!with_checkpoint && !(at_end && (!part.rows.empty() || batch.rows.empty()))) continue;
    verdict = AcceptRows(draft, report.node, part, with_checkpoint);
    if (stop_seq == 0) stop_seq = verdict.stop_seq;
    part.rows.clear();
  }
  verdict.stop_seq = stop_seq;
  return verdict;
}

}  // namespace

absl::Status OnReport(Draft& draft, const input::Report& report) {
  RT_RETURN_IF_ERROR(CheckNewest(draft.core, report.node, report.seen_epoch));
  RT_RETURN_IF_ERROR(CheckNewestDaemon(draft.state(), report.node, report.incarnation));
  for (const RowBatch& batch : report.batches) {
    draft.out.answer.verdicts.push_back(AcceptParts(draft, report, batch));
    if (batch.rank != 0) CommitComplete(draft, batch.attempt);
    RetryExit(draft, report.node, {batch.attempt, batch.rank});
  }
  return absl::OkStatus();
}

}  // namespace rt
