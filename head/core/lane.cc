#include "head/core/lane.h"

#include <algorithm>

#include "common/algorithms/explorer.h"
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/answers.h"
#include "head/core/places.h"

namespace rt {
namespace {

TrialResult ResultOf(const Trial& trial, const ExperimentIndex& index, bool reads_outcomes) {
  using Kind = TrialResult::Kind;
  if (trial.end == TrialEnd::kNone) return {Kind::kOpen};  // Its rows are not read.
  static const std::vector<double> none;
  const auto known = index.outcomes.find(trial.id.number);
  const std::vector<double>& outcome = known == index.outcomes.end() ? none : known->second;
  const bool has_value = reads_outcomes ? !outcome.empty() : trial.has_best;
  const auto ended = [&](Kind kind) {
    TrialResult result{kind, kind == Kind::kValue ? trial.best : 0, trial.ended_at};
    if (kind == Kind::kValue) result.outcome = outcome;
    return result;
  };
  switch (trial.end) {
    case TrialEnd::kNone: break;
    case TrialEnd::kFailed: {
      const auto& attempts = trial.runs.attempts;
      const bool was_lost = !attempts.empty() && attempts.back().outcome == AttemptOutcome::kLost;
      return ended(was_lost ? Kind::kUnknown : Kind::kBad);
    }
    case TrialEnd::kCompleted: return ended(has_value ? Kind::kValue : Kind::kBad);
    case TrialEnd::kStopped: return ended(has_value ? Kind::kValue : Kind::kUnknown);
  }
  return {};
}

// Adds the values of trials at rungs, and the best values of those that completed.
void AddRungs(const Experiment& experiment, std::vector<TrialResult>& results) {
  for (const Rung& rung : experiment.rungs)
    for (const RungEntry& entry : rung.entries)
      results.at(entry.trial).rungs.push_back({rung.milestone, entry.value});
  for (const Trial& trial : experiment.trials) {
    std::vector<RungResult>& rungs = results[trial.id.number].rungs;
    std::sort(rungs.begin(), rungs.end(),
              [](const RungResult& a, const RungResult& b) { return a.milestone < b.milestone; });
    if (trial.end == TrialEnd::kCompleted && trial.has_best)
      rungs.push_back({kTrainedToTheEnd, trial.best});
  }
}

std::string OverdueText() {
  return "the compute lane did not answer within " +
         std::to_string(limits::kLaneOverdueAfter / 1'000) + " s";
}

}  // namespace

LaneModel::LaneModel(const ExperimentSpec& spec, uint64_t seed)
    : spec_(spec), seed_(seed), model_(spec, seed) {}

input::LaneAnswered LaneModel::Answer(const LaneJob& job, const GiveUp& give_up,
                                      const std::map<uint32_t, std::string>& failed) {
  input::LaneAnswered answered{.experiment = job.experiment,
                               .epoch = job.epoch,
                               .from = job.from,
                               .observed_through = job.observed_through};
  for (const ExploreQuestion& question : job.questions) {
    Exploration found = ExploreFor(spec_, seed_, question, give_up);
    answered.explored.push_back({question.trial, question.from, question.comparisons, question.base,
                                 std::move(found.params), std::move(found.fallback)});
  }
  if (job.count == 0) return answered;
  // Each configuration is added as the state has it, also the model's own.
  for (const std::string& text : job.params) model_.Add(text);
  std::vector<TrialResult> results = job.results;
  for (uint32_t number = job.from; number < job.from + job.count; ++number) {
    std::string reason;
    absl::StatusOr<std::string> params = absl::InternalError("");
    if (const auto known = failed.find(number); known != failed.end()) {
      reason = known->second;
    } else if (params = model_.Ask(results, give_up); absl::IsDeadlineExceeded(params.status())) {
      if (number > job.from) break;  // It is asked anew.
      reason = "no answer within " + std::to_string(limits::kLaneAnswerMax / 1'000) + " s";
    } else if (!params.ok()) {
      reason = FallbackReason(MessageOf(params.status()));
    }
    if (!reason.empty()) {
      const std::optional<Json> fallback = SearcherOf(spec_).Propose(spec_, seed_, number);
      params = fallback.has_value() ? fallback->Dump() : "{}";
    }
    if (reason.empty() && model_.belief().has_value()) answered.belief = model_.belief();
    model_.Add(*params);
    answered.points.push_back({*std::move(params), std::move(reason)});
    results.push_back({});
  }
  model_.ForgetFrom(job.from);
  return answered;
}

std::vector<TrialResult> ResultsOf(const Experiment& experiment, const ExperimentIndex& index) {
  const bool reads_outcomes = !index.spec.OutcomeKeys().empty();
  std::vector<TrialResult> results;
  results.reserve(experiment.trials.size());
  for (const Trial& trial : experiment.trials)
    results.push_back(ResultOf(trial, index, reads_outcomes));
  if (index.chosen.reads_rungs) AddRungs(experiment, results);
  return results;
}

size_t WantedOfModel(const Core& core, ExperimentId id, Millis now) {
  const Experiment& experiment = core.world.state.experiments.at(id);
  const ExperimentIndex& index = core.world.index.experiments.at(id);
  const bool may_propose = index.chosen.has_model && !index.closed && experiment.is_searching();
  if (!may_propose || index.ready > 0) return 0;
  size_t most = limits::kLaneBatchMax;
  if (index.spec.max_concurrent > 0) {
    const size_t open = index.pending.size() - index.paused.size() + index.live.size();
    const auto allowed = static_cast<size_t>(index.spec.max_concurrent);
    most = std::min(most, allowed > open ? allowed - open : 0);
  }
  const uint64_t made = experiment.trials.size();
  const uint64_t total = index.spec.TrialsTotal().value_or(UINT32_MAX);
  most = std::min<uint64_t>(most, total > made ? total - made : 0);
  if (most <= 1) return most;
  // While others wait for capacity, what is free is not for this experiment.
  if (!core.world.index.ready.empty()) return 1;
  return std::min(most, 1 + CountFree(core, index.spec.resources, now, most));
}

event::Answered AnswerOfLane(const World& world, const input::LaneAnswered& answered) {
  const ExperimentId id = answered.experiment;
  const ExperimentSpec& spec = world.index.experiments.at(id).spec;
  event::Answered answer = AnswerOf(world, id, SearcherOf(spec).table());
  answer.observed_through = answered.observed_through;
  auto number = static_cast<uint32_t>(world.state.experiments.at(id).trials.size());
  for (const input::LaneAnswered::Proposal& point : answered.points) {
    if (number >= spec.TrialsTotal().value_or(UINT32_MAX)) break;
    AddNewTrial(world, answer, number, point.params);
    if (!point.fallback.empty()) answer.fallbacks.push_back({number, point.fallback});
    ++number;
  }
  return answer;
}

absl::Status OnLaneAnswered(Draft& draft, const input::LaneAnswered& input) {
  const State& state = draft.state();
  const auto found = state.experiments.find(input.experiment);
  if (found == state.experiments.end() || input.epoch != state.epoch) return absl::OkStatus();
  const ExperimentIndex& index = draft.index().experiments.at(input.experiment);
  const bool is_wanted = index.chosen.has_model && !index.closed && found->second.is_searching();
  if (!input.explored.empty() && index.chosen.explores && !found->second.finishing &&
      found->second.stop_cause == StopCause::kNone && input.observed_through <= state.seq)
    EmitAnswer(draft, ClonesOfLane(draft.core.world, input));
  // Answered in another way meanwhile, or asked by a head that knew other records.
  const bool is_next =
      input.from == found->second.trials.size() && input.observed_through <= state.seq;
  if (!is_wanted || !is_next) return absl::OkStatus();
  if (input.belief.has_value()) draft.soft().beliefs[input.experiment] = *input.belief;
  EmitAnswer(draft, AnswerOfLane(draft.core.world, input));
  return absl::OkStatus();
}

std::vector<ExploreQuestion> LaneDesk::NewQuestions(const World& world, ExperimentId id,
                                                    Place& place) {
  std::vector<ExploreQuestion> questions;
  if (!world.index.experiments.at(id).chosen.explores) return questions;
  const Experiment& experiment = world.state.experiments.at(id);
  size_t recorded = 0;  // Mostly as often as at the last look.
  for (const Rung& rung : experiment.rungs) recorded += rung.entries.size();
  if (recorded == place.recorded) return questions;
  place.recorded = recorded;
  std::vector<uint32_t> compared;
  for (const Trial& trial : experiment.trials) {
    size_t& asked = place.asked[trial.id.number];
    if (trial.milestones.size() == asked) continue;
    asked = trial.milestones.size();
    compared.push_back(trial.id.number);
  }
  return QuestionsOf(world, id, compared);
}

std::vector<LaneJob> LaneDesk::Ask(const Core& core, Millis now) {
  std::vector<LaneJob> jobs;
  for (ExperimentId id : core.world.index.open_models) {
    Place& place = places_[id];
    if (place.is_under_way) continue;
    std::vector<ExploreQuestion> questions = NewQuestions(core.world, id, place);
    const size_t wanted = questions.empty() ? WantedOfModel(core, id, now) : 0;
    if (wanted == 0 && questions.empty()) continue;
    const Experiment& experiment = core.world.state.experiments.at(id);
    if (!questions.empty()) {
      LaneJob job{.experiment = id,
                  .epoch = core.world.state.epoch,
                  .observed_through = core.world.state.seq,
                  .from = static_cast<uint32_t>(experiment.trials.size()),
                  .seed = experiment.seed,
                  .questions = questions};
      if (!place.is_known) job.spec = core.world.index.experiments.at(id).spec;
      place.is_known = place.is_under_way = true;
      place.questions = std::move(questions);
      place.asked_through = core.world.state.seq;
      jobs.push_back(std::move(job));
      continue;
    }
    LaneJob job{.experiment = id,
                .epoch = core.world.state.epoch,
                .observed_through = core.world.state.seq,
                .from = static_cast<uint32_t>(experiment.trials.size()),
                .count = static_cast<uint32_t>(wanted),
                .results = ResultsOf(experiment, core.world.index.experiments.at(id)),
                .params_from = place.known,
                .seed = experiment.seed};
    for (uint32_t number = place.known; number < job.from; ++number)
      job.params.push_back(experiment.trials[number].params);
    if (!place.is_known) job.spec = core.world.index.experiments.at(id).spec;
    place.is_known = place.is_under_way = true;
    place.known = job.from;
    place.waited = 0;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<input::LaneAnswered> LaneDesk::Overdue(const Core& core, Millis now) {
  // A head that stood still has not waited: neither has the lane run.
  const Millis since = std::min(now - looked_at_, limits::kTickInterval * 4);
  looked_at_ = now;
  std::vector<input::LaneAnswered> answers;
  for (auto& [id, place] : places_) {
    if (!place.is_under_way) continue;
    place.waited += since;
    if (place.waited < limits::kLaneOverdueAfter || !core.world.index.open_models.contains(id))
      continue;
    const Experiment& experiment = core.world.state.experiments.at(id);
    const ExperimentSpec& spec = core.world.index.experiments.at(id).spec;
    input::LaneAnswered answer{
        .experiment = id,
        .epoch = core.world.state.epoch,
        .from = static_cast<uint32_t>(experiment.trials.size()),
        .observed_through = place.questions.empty() ? core.world.state.seq : place.asked_through};
    const GiveUp at_once = [] { return true; };
    for (const ExploreQuestion& question : place.questions)
      answer.explored.push_back({question.trial, question.from, question.comparisons, question.base,
                                 ExploreFor(spec, experiment.seed, question, at_once, true).params,
                                 OverdueText()});
    const size_t wanted = place.questions.empty() ? WantedOfModel(core, id, now) : 0;
    for (uint64_t number = answer.from; number < answer.from + wanted; ++number) {
      const std::optional<Json> params = SearcherOf(spec).Propose(spec, experiment.seed, number);
      answer.points.push_back({params.has_value() ? params->Dump() : "{}", OverdueText()});
    }
    if (!answer.points.empty() || !answer.explored.empty()) answers.push_back(std::move(answer));
  }
  return answers;
}

void LaneDesk::Take(const input::LaneAnswered& answered) {
  const auto place = places_.find(answered.experiment);
  if (place == places_.end()) return;
  place->second.is_under_way = false;
  place->second.waited = 0;
  place->second.questions.clear();
}

std::vector<ExperimentId> LaneDesk::Close(const Core& core) {
  std::vector<ExperimentId> closed;
  for (auto place = places_.begin(); place != places_.end();) {
    if (core.world.index.open_models.contains(place->first) || place->second.is_under_way) {
      ++place;
      continue;
    }
    closed.push_back(place->first);
    place = places_.erase(place);
  }
  return closed;
}

}  // namespace rt
