#include "head/core/answer_checker.h"

#include <algorithm>
#include <iterator>

#include "common/algorithms/explorer.h"
#include "common/base/limits.h"
#include "head/core/answers.h"
#include "head/core/elastic.h"
#include "head/core/lane.h"

namespace rt {
namespace {

absl::Status Differs(uint64_t seq, const std::string& what) {
  return absl::DataLossError("record " + std::to_string(seq) + ": " + what +
                             ", and the algorithm now computes another one");
}

// The head takes no answer to a question that is older than kLaneOverdueAfter, or about attempts
// that have all ended.
template <typename Noted>
void DropOlder(std::map<uint64_t, Noted>& noted, Millis at) {
  auto oldest = noted.begin();
  while (std::next(oldest) != noted.end() &&
         std::next(oldest)->second.at + limits::kLaneOverdueAfter < at)
    oldest = noted.erase(oldest);
}

}  // namespace

AnswerChecker::AnswerChecker(World world) : world_(std::move(world)) {
  for (ExperimentId id : world_.index.open_models) NoteResults(id);
  NoteProfiles(world_.state.time);
  NoteShared(world_.state.time);
}

absl::Status AnswerChecker::See(const Record& record) {
  absl::Status verdict;
  if (const auto* rung = std::get_if<event::RungRecorded>(&record.event)) {
    verdict = CheckRung(*rung);
    last_recorded_[rung->trial.experiment] = rung->trial.number;
  } else if (const auto* answer = std::get_if<event::Answered>(&record.event)) {
    if (answer->session == 0) verdict = CheckAnswer(*answer);
    ++answers_;
  } else if (const auto* sizes = std::get_if<event::SizesAnswered>(&record.event)) {
    verdict = CheckSizes(*sizes);
    ++answers_;
  }
  Apply(world_, record);
  if (const auto* ended = std::get_if<event::TrialEnded>(&record.event)) {
    last_ended_[ended->trial.experiment] = ended->trial;
    NoteResults(ended->trial.experiment);
  } else if (const auto* rung = std::get_if<event::RungRecorded>(&record.event)) {
    const ExperimentId id = rung->trial.experiment;
    if (world_.index.experiments.at(id).chosen.reads_rungs) NoteResults(id);
  } else if (const auto* retried = std::get_if<event::TrialRetried>(&record.event)) {
    NoteResults(retried->trial.experiment);
  } else if (const auto* created = std::get_if<event::ExperimentCreated>(&record.event)) {
    NoteResults(created->experiment);
  } else if (const auto* answered = std::get_if<event::Answered>(&record.event)) {
    NoteAnswer(*answered);
  }
  const bool may_teach = std::holds_alternative<event::ProfileRecorded>(record.event) ||
                         std::holds_alternative<event::TrialEnded>(record.event) ||
                         std::holds_alternative<event::TrialRetried>(record.event);
  if (may_teach && !world_.state.profiles.empty()) NoteProfiles(record.at);
  NoteShared(record.at);
  for (ExperimentId id : world_.index.open_models) NoteQuestions(id);
  const auto is_over = [&](const auto& one) {
    return !world_.index.open_models.contains(one.first);
  };
  std::erase_if(questions_, is_over);
  return verdict;
}

void AnswerChecker::NoteProfiles(Millis at) {
  if (world_.index.elastic.empty()) memories_.clear();
  memories_[world_.state.seq] = {at, RecallProfiles(world_.state)};
  DropOlder(memories_, at);
}

void AnswerChecker::NoteShared(Millis at) {
  if (world_.index.elastic.empty()) return shared_.clear();
  std::vector<SharedGroup> groups = SharedIn(world_);
  if (!shared_.empty() && shared_.rbegin()->second.groups == groups) return;
  shared_[world_.state.seq] = {at, std::move(groups)};
  DropOlder(shared_, at);
}

// The policies give the same sizes to what they had read.
absl::Status AnswerChecker::CheckSizes(const event::SizesAnswered& answer) {
  const auto later = memories_.upper_bound(answer.observed_through);
  ElasticMemory known;
  if (later != memories_.begin()) known = std::prev(later)->second.memory;
  const bool is_whole = answer.groups.empty() || answer.groups.front().asked == 0;
  const auto next = shared_.upper_bound(answer.observed_through);
  std::vector<SharedGroup> asked_about;
  if (next != shared_.begin()) asked_about = std::prev(next)->second.groups;
  const event::SizesAnswered whole = is_whole ? answer : WholeOf(answer, asked_about);
  event::SizesAnswered again = AnswerElastic(QuestionOf(whole, std::move(known))).answer;
  if (!is_whole) again = ChangesOf(again);
  // No later answer has read less than this one.
  if (later != memories_.begin()) memories_.erase(memories_.begin(), std::prev(later));
  if (next != shared_.begin()) shared_.erase(shared_.begin(), std::prev(next));
  if (again == answer) return absl::OkStatus();
  return Differs(world_.state.seq + 1, "a policy gave sizes to elastic attempts");
}

absl::Status AnswerChecker::CheckRung(const event::RungRecorded& rung) {
  TrialVerdict verdict =
      DecideAt(world_, rung.trial, rung.milestone, rung.value, rung.with_checkpoint);
  const bool stops = verdict.action == TrialVerdict::Action::kStop;
  // A pause outlives the rungs that the trial reaches before the answer, unless one lifts it.
  const bool lifts_pause = world_.index.experiments.at(rung.trial.experiment).chosen.reviews;
  if (verdict.action != TrialVerdict::Action::kContinue || lifts_pause)
    at_rung_[rung.trial] = std::move(verdict);
  if (stops == rung.stopped) return absl::OkStatus();
  return Differs(world_.state.seq + 1,
                 std::string("a rung ") + (stops ? "did not stop" : "stopped") + " the trial");
}

// The newest row ended the trial, or its rung did.
TrialVerdict AnswerChecker::VerdictOfRow(TrialId id) const {
  const Trial& trial = *FindTrial(world_.state, id);
  const absl::StatusOr<Json> parsed = Json::Parse(trial.last.metrics);
  const Json metrics = parsed.ok() ? *parsed : Json::MakeObject();
  const RowView view{metrics, trial.last.iteration, trial.last.time_total_s};
  const std::optional<double> best =
      trial.has_best ? std::optional<double>(trial.best) : std::nullopt;
  RowVerdict row = OnRow(world_, trial, view, best);
  if (row.verdict.action != TrialVerdict::Action::kContinue) return std::move(row.verdict);
  const auto rung = at_rung_.find(id);
  return rung == at_rung_.end() ? TrialVerdict{} : rung->second;
}

// What the lane was asked at the record that the answer names leads to the same clones.
event::Answered AnswerChecker::OfExplorer(const event::Answered& answer) const {
  const ExperimentId id = answer.experiment;
  const auto known = questions_.find(id);
  if (known == questions_.end()) return {};
  const auto later = known->second.upper_bound(answer.observed_through);
  if (later == known->second.begin()) return {};
  input::LaneAnswered again{.experiment = id, .observed_through = answer.observed_through};
  for (const ClonedTrial& clone : answer.cloned) {
    const auto& asked = std::prev(later)->second;
    const auto question = asked.find(clone.number);
    if (question == asked.end()) return {};
    std::string fallback;
    for (const FallbackTrial& one : answer.fallbacks)
      if (one.number == clone.number) fallback = one.reason;
    const ExploreQuestion& what = question->second;
    again.explored.push_back(
        {what.trial, what.from, what.comparisons, what.base,
         ExploreFor(world_.index.experiments.at(id).spec, world_.state.experiments.at(id).seed,
                    what, {}, !fallback.empty())
             .params,
         fallback});
  }
  return ClonesOfLane(world_, again);
}

void AnswerChecker::NoteQuestions(ExperimentId id) {
  if (!world_.index.experiments.at(id).chosen.explores) return;
  std::vector<uint32_t> all;
  for (const Trial& trial : world_.state.experiments.at(id).trials) all.push_back(trial.id.number);
  std::map<uint32_t, ExploreQuestion> questions;
  for (ExploreQuestion& question : QuestionsOf(world_, id, all))
    questions.emplace(question.trial, std::move(question));
  auto& known = questions_[id];
  const bool is_news = known.empty() || known.rbegin()->second != questions;
  if (is_news) known.emplace(world_.state.seq, std::move(questions));
  // Each trial has an answer of its own, which may have read less than an earlier one about another
  // trial did. The head takes none about a trial that has ended, or been compared again.
  const Experiment& experiment = world_.state.experiments.at(id);
  const auto may_be_answered = [&](const auto& asked) {
    const Trial& trial = experiment.trials.at(asked.first);
    return IsOpen(trial) && trial.milestones.size() == asked.second.comparisons;
  };
  while (known.size() > 1 &&
         std::none_of(known.begin()->second.begin(), known.begin()->second.end(), may_be_answered))
    known.erase(known.begin());
}

event::Answered AnswerChecker::Recompute(const event::Answered& answer) const {
  const ExperimentId id = answer.experiment;
  if (world_.index.experiments.at(id).chosen.explores && !answer.cloned.empty())
    return OfExplorer(answer);
  const ExperimentSpec& spec = world_.index.experiments.at(id).spec;
  if (answer.algorithm == SearcherOf(spec).table().name)
    return SearcherOf(spec).is_model() ? OfModel(answer)
                                       : ProposalOf(world_, id, answer.created.size());
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

// By an object that was made for it, and that has seen nothing else.
event::Answered AnswerChecker::OfModel(const event::Answered& answer) const {
  const Experiment& experiment = world_.state.experiments.at(answer.experiment);
  const auto known = results_.find(answer.experiment);
  if (known == results_.end()) return {};
  const auto later = known->second.upper_bound(answer.observed_through);
  if (later == known->second.begin()) return {};
  LaneJob job{.experiment = answer.experiment,
              .observed_through = answer.observed_through,
              .from = static_cast<uint32_t>(experiment.trials.size()),
              .count = static_cast<uint32_t>(answer.created.size()),
              .results = std::prev(later)->second};
  job.results.resize(job.from);  // Those of an answer that became several records are open.
  for (const Trial& trial : experiment.trials) job.params.push_back(trial.params);
  std::map<uint32_t, std::string> failed;
  for (const FallbackTrial& one : answer.fallbacks) failed[one.number] = one.reason;
  LaneModel model(world_.index.experiments.at(answer.experiment).spec, experiment.seed);
  return AnswerOfLane(world_, model.Answer(job, {}, failed));
}

// Keeps what the experiment's model may have read when it gave an answer that is still to come.
void AnswerChecker::NoteResults(ExperimentId id) {
  if (!world_.index.experiments.at(id).chosen.has_model) return;
  results_[id][world_.state.seq] =
      ResultsOf(world_.state.experiments.at(id), world_.index.experiments.at(id));
}

// No later answer has read less than this one.
void AnswerChecker::NoteAnswer(const event::Answered& answer) {
  if (answer.created.empty()) return;
  if (const auto known = results_.find(answer.experiment); known != results_.end()) {
    const auto later = known->second.upper_bound(answer.observed_through);
    if (later != known->second.begin())
      known->second.erase(known->second.begin(), std::prev(later));
  }
  NoteResults(answer.experiment);
}

std::optional<uint32_t> AnswerChecker::LastRecorded(ExperimentId id) const {
  const auto last = last_recorded_.find(id);
  return last == last_recorded_.end() ? std::nullopt : std::optional(last->second);
}

absl::Status AnswerChecker::CheckAnswer(const event::Answered& answer) const {
  if (Recompute(answer) == answer) return absl::OkStatus();
  const ExperimentId id = answer.experiment;
  if (ReviewOf(world_, id, {}) == answer || ReviewOf(world_, id, LastRecorded(id)) == answer)
    return absl::OkStatus();
  return Differs(world_.state.seq + 1, "'" + answer.algorithm + "' gave an answer for experiment " +
                                           std::to_string(answer.experiment.value));
}

}  // namespace rt
