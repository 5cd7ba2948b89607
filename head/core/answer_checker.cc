#include "head/core/answer_checker.h"

#include "head/core/answers.h"

namespace rt {
namespace {

absl::Status Differs(uint64_t seq, const std::string& what) {
  return absl::DataLossError("record " + std::to_string(seq) + ": " + what +
                             ", and the algorithm now computes another one");
}

}  // namespace

absl::Status AnswerChecker::See(const Record& record) {
  absl::Status verdict;
  if (const auto* rung = std::get_if<event::RungRecorded>(&record.event)) {
    verdict = CheckRung(*rung);
  } else if (const auto* answer = std::get_if<event::Answered>(&record.event)) {
    if (answer->session == 0) verdict = CheckAnswer(*answer);
    ++answers_;
  }
  Apply(world_, record);
  if (const auto* ended = std::get_if<event::TrialEnded>(&record.event))
    last_ended_[ended->trial.experiment] = ended->trial;
  return verdict;
}

absl::Status AnswerChecker::CheckRung(const event::RungRecorded& rung) {
  TrialVerdict verdict = DecideAt(world_, rung.trial, rung.milestone, rung.value);
  const bool stops = verdict.action == TrialVerdict::Action::kStop;
  // A pause outlives the rungs that the trial reaches before the answer.
  if (verdict.action != TrialVerdict::Action::kContinue) at_rung_[rung.trial] = std::move(verdict);
  if (stops == rung.stopped) return absl::OkStatus();
  return Differs(world_.state.seq + 1,
                 std::string("a rung ") + (stops ? "did not stop" : "stopped") + " the trial");
}

// The newest row ended the trial, or its rung did.
TrialVerdict AnswerChecker::VerdictOfRow(TrialId id) const {
  const Trial& trial = *FindTrial(world_.state, id);
  const ExperimentSpec& spec = world_.index.experiments.at(id.experiment).spec;
  const absl::StatusOr<Json> parsed = Json::Parse(trial.last.metrics);
  const Json metrics = parsed.ok() ? *parsed : Json::MakeObject();
  const RowView view{metrics, trial.last.iteration, trial.last.time_total_s};
  RowVerdict row = SchedulerOf(spec).OnRow(spec, {id.number, trial.bracket, trial.milestones},
                                           view);
  if (row.verdict.action != TrialVerdict::Action::kContinue) return std::move(row.verdict);
  const auto rung = at_rung_.find(id);
  return rung == at_rung_.end() ? TrialVerdict{} : rung->second;
}

event::Answered AnswerChecker::Recompute(const event::Answered& answer) const {
  const ExperimentId id = answer.experiment;
  const ExperimentSpec& spec = world_.index.experiments.at(id).spec;
  if (answer.algorithm == SearcherOf(spec).table().name)
    return ProposalOf(world_, id, answer.created.size());
  if (!answer.stopped.empty()) {
    const TrialId trial{id, answer.stopped.front().number};
    return VerdictOn(world_, trial, VerdictOfRow(trial));
  }
  if (!answer.paused.empty()) {
    const TrialId trial{id, answer.paused.front().number};
    return VerdictOn(world_, trial, VerdictOfRow(trial));
  }
  const auto ended = last_ended_.find(id);
  return ended == last_ended_.end() ? event::Answered{} : AnswerToEnd(world_, ended->second);
}

absl::Status AnswerChecker::CheckAnswer(const event::Answered& answer) const {
  if (Recompute(answer) == answer) return absl::OkStatus();
  return Differs(world_.state.seq + 1, "'" + answer.algorithm + "' gave an answer for experiment " +
                                           std::to_string(answer.experiment.value));
}

}  // namespace rt
