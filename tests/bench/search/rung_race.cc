#include "search/rung_race.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/algorithms/registry.h"
#include "common/base/check.h"

namespace rt::bench {
namespace {

ExperimentSpec SpecOf(const FidelityProblem& problem, const std::string& search,
                      const std::string& scheduler, size_t workers) {
  const absl::StatusOr<Json> json = Json::Parse(
      R"({"experiment":"e","command":["x"],"metric":"loss","mode":"min","num_samples":-1,)"
      R"("max_concurrent":)" +
      std::to_string(workers) + R"(,"search":)" + search + R"(,"scheduler":)" + scheduler +
      R"(,"space":)" + problem.space + "}");
  RT_CHECK(json.ok());
  absl::StatusOr<ExperimentSpec> spec = ParseExperimentSpec(*json);
  RT_CHECK(spec.ok());
  return *std::move(spec);
}

}  // namespace

RungRace::RungRace(const FidelityProblem& problem, const std::string& search,
                   const std::string& scheduler, size_t workers, uint64_t seed)
    : problem_(problem), workers_(workers), seed_(seed),
      spec_(SpecOf(problem, search, scheduler, workers)), searcher_(SearcherOf(spec_)),
      scheduler_(SchedulerOf(spec_)) {
  if (searcher_.is_model()) model_.emplace(spec_, seed);
  for (uint32_t bracket = 0; bracket < scheduler_.BracketCount(spec_); ++bracket)
    limits_.push_back(scheduler_.LimitsOf(spec_, bracket));
}

void RungRace::RunTo(int64_t time) {
  Fill();
  while (!rows_.empty() && rows_.top().time <= time && !has_reached()) {
    const Row row = rows_.top();
    rows_.pop();
    now_ = row.time;
    TakeRow(row.trial);
    Fill();
  }
}

// Trials that were resumed come first.
void RungRace::Fill() {
  while (rows_.size() < workers_) {
    uint32_t number;
    if (!ready_.empty()) {
      number = *ready_.begin();
      ready_.erase(ready_.begin());
    } else {
      number = Create();
    }
    trials_[number].runs = true;
    rows_.push({now_ + 1, number});
  }
}

uint32_t RungRace::Create() {
  const auto number = static_cast<uint32_t>(trials_.size());
  std::string params;
  if (model_.has_value()) {
    std::vector<TrialResult> results;
    for (const RaceTrial& trial : trials_) {
      results.push_back(trial.result);
      if (!searcher_.table().reads_rungs) results.back().rungs.clear();
    }
    const absl::StatusOr<std::string> answer = model_->Ask(results, {});
    if (answer.ok()) params = *answer;
    else ++fallbacks_;
  }
  if (params.empty()) params = searcher_.Propose(spec_, seed_, number)->Dump();
  if (model_.has_value()) model_->Add(params);
  RaceTrial trial{.params = params, .x = ValuesOf(*Json::Parse(params))};
  trial.bracket = scheduler_.BracketOf(spec_, seed_, number);
  trial.curve = problem_.train(trial.x, Rng(seed_ ^ 0x7261636521, number));
  trials_.push_back(std::move(trial));
  return number;
}

void RungRace::TakeRow(uint32_t number) {
  RaceTrial& trial = trials_[number];
  trial.trained += 1;
  const double value = trial.curve->Next();
  trial.best = std::min(trial.best, value);
  ++rows_taken_;
  best_ = std::min(best_, value);
  const Json metrics = Json::MakeObject({{"loss", value}});
  const RowView row{metrics, trial.trained, static_cast<double>(now_)};
  const TrialLimits& limits = limits_[trial.bracket % limits_.size()];
  const RowVerdict verdict =
      scheduler_.OnRow(spec_, {number, trial.bracket, trial.recorded, limits}, row);
  if (trial.trained >= problem_.units) {  // Whatever the scheduler says, it is trained.
    trial.result.rungs.push_back({kTrainedToTheEnd, value});
    End(number, true);
  } else if (verdict.milestone.has_value()) {
    Record(number, *verdict.milestone, verdict.value);
  } else {
    Apply(number, verdict.verdict);
  }
  if (trials_[number].runs) rows_.push({now_ + 1, number});
}

void RungRace::Record(uint32_t number, double milestone, double value) {
  RaceTrial& trial = trials_[number];
  std::vector<RungMember>& members = rungs_[{trial.bracket, milestone}];
  std::vector<double> values;
  for (const RungMember& member : members)
    if (!std::isnan(member.value)) values.push_back(member.value);
  std::sort(values.begin(), values.end());
  RungValues before{.bracket = trial.bracket,
                    .milestone = milestone,
                    .values = values,
                    .recorded = members.size(),
                    .trial = number};
  SearchReview review;
  if (scheduler_.reviews_trials()) review = ReviewNow();
  if (scheduler_.compares_brackets()) {
    AddBrackets(trial.bracket, review);
    before.review = &review;
  }
  if (scheduler_.compares_rungs(spec_)) {
    AddAllRungs(trial.bracket, review);
    before.review = &review;
  }
  const TrialVerdict verdict = scheduler_.AtMilestone(spec_, before, value);
  members.push_back({number, value});
  trial.recorded.insert(milestone);
  trial.result.rungs.push_back({milestone, value});
  Apply(number, verdict);
  Review(number);
}

void RungRace::Apply(uint32_t number, const TrialVerdict& verdict) {
  RaceTrial& trial = trials_[number];
  switch (verdict.action) {
    case TrialVerdict::Action::kContinue: break;
    case TrialVerdict::Action::kStop: End(number, false); break;
    case TrialVerdict::Action::kComplete: End(number, true); break;
    case TrialVerdict::Action::kPause:
      trial.runs = false;
      trial.is_paused = true;
      Review({});
      break;
  }
}

void RungRace::End(uint32_t number, bool is_complete) {
  RaceTrial& trial = trials_[number];
  trial.runs = trial.is_paused = false;
  trial.result.kind = TrialResult::Kind::kValue;
  trial.result.value = trial.best;
  trial.result.ended_at = now_;
  if (is_complete) RT_CHECK(!trial.result.rungs.empty());
  Review({});
}

void RungRace::Review(std::optional<uint32_t> recorded) {
  if (!scheduler_.reviews_trials()) return;
  SearchReview review = ReviewNow();
  if (review.paused.empty()) return;
  if (scheduler_.compares_brackets()) {
    if (recorded && trials_[*recorded].runs) review.arrived = AtRung(*recorded, review);
    AddBrackets({}, review);
  }
  if (scheduler_.compares_rungs(spec_)) AddAllRungs({}, review);
  const ReviewVerdict verdict = scheduler_.Review(spec_, review);
  for (const uint32_t number : verdict.resumed) {
    trials_[number].is_paused = false;
    ready_.insert(number);
  }
  for (const ReviewStop& stop : verdict.stopped) End(stop.trial, false);
}

SearchReview RungRace::ReviewNow() const {
  SearchReview review{.others_come = true, .others_wait = true};
  for (const RaceTrial& trial : trials_)
    review.has_completed = review.has_completed || trial.trained >= problem_.units;
  for (uint32_t number = 0; number < trials_.size(); ++number)
    if (trials_[number].is_paused) review.paused.push_back(AtRung(number, review));
  return review;
}

void RungRace::AddBrackets(std::optional<uint32_t> also, SearchReview& review) const {
  std::map<uint32_t, BracketState> states;
  for (const PausedTrial& trial : review.paused) states[trial.bracket].number = trial.bracket;
  if (also) states[*also].number = *also;
  for (const RaceTrial& trial : trials_) {
    const auto state = states.find(trial.bracket);
    if (state == states.end()) continue;
    ++state->second.created;
    const bool is_open = trial.result.kind == TrialResult::Kind::kOpen && !trial.is_paused;
    state->second.open += is_open ? 1 : 0;
  }
  for (const auto& [number, state] : states) review.brackets.push_back(state);
}

PausedTrial RungRace::AtRung(uint32_t number, SearchReview& review) const {
  const RaceTrial& trial = trials_[number];
  const double milestone = trial.recorded.empty() ? 0 : *trial.recorded.rbegin();
  const bool is_known =
      std::any_of(review.rungs.begin(), review.rungs.end(), [&](const RungMembers& rung) {
        return rung.bracket == trial.bracket && rung.milestone == milestone;
      });
  if (const auto rung = rungs_.find({trial.bracket, milestone}); !is_known && rung != rungs_.end())
    review.rungs.push_back({trial.bracket, milestone, rung->second});
  return {.number = number, .bracket = trial.bracket, .milestone = milestone};
}

void RungRace::AddAllRungs(std::optional<uint32_t> bracket, SearchReview& review) const {
  review.rungs.clear();
  for (const auto& [key, members] : rungs_)
    if (!bracket || key.first == *bracket) review.rungs.push_back({key.first, key.second, members});
}

double RungRace::Regret() const {
  double longest = -1, best = HUGE_VAL;
  const RaceTrial* chosen = nullptr;
  for (const RaceTrial& trial : trials_) {
    for (const RungResult& rung : trial.result.rungs) {
      if (rung.milestone < longest || (rung.milestone == longest && rung.value >= best)) continue;
      longest = rung.milestone;
      best = rung.value;
      chosen = &trial;
    }
  }
  if (chosen == nullptr) return HUGE_VAL;
  return std::max(problem_.truth(chosen->x) - problem_.minimum, 1e-14);
}

}  // namespace rt::bench
