#include "tests/sim/lane_host.h"

namespace rt::sim {

std::vector<input::LaneAnswered> LaneHost::Ask(const Core& core, Millis now) {
  for (ExperimentId closed : desk_.Close(core)) models_.erase(closed);
  for (const LaneJob& job : desk_.Ask(core, now)) Answer(job);
  if (const auto question = elastic_.Ask(core, now)) AnswerSizes(*question);
  std::vector<input::LaneAnswered> overdue = desk_.Overdue(core, now);
  for (const input::LaneAnswered& answered : overdue) {
    sim_.faults.Add(Fault::kModelOverdue);
    NoteTruth(answered);
  }
  return overdue;
}

void LaneHost::Take(const Input& input, uint64_t epoch) {
  const auto* answered = std::get_if<input::LaneAnswered>(&input);
  if (answered != nullptr && answered->epoch == epoch) desk_.Take(*answered);
  const auto* sizes = std::get_if<input::ElasticAnswered>(&input);
  if (sizes != nullptr && sizes->epoch == epoch) elastic_.Take(*sizes);
}

// What the head may ask attempts for: any of these sizes.
void LaneHost::AnswerSizes(const ElasticQuestion& question) {
  const input::ElasticAnswered answered = AnswerElastic(question);
  if (sim_.Strikes(sim_.plan.model_silent, Fault::kModelSilent)) return;
  const bool is_late = sim_.Strikes(sim_.plan.model_slow, Fault::kModelLate);
  const Millis delay = is_late ? sim_.Between(500, 12'000) : sim_.Between(1, 40);
  sim_.At(delay, [this, answered] { post_(answered); });
  if (sim_.Strikes(sim_.plan.duplicated, Fault::kDuplicated))
    sim_.At(delay + sim_.Between(1, 800), [this, answered] { post_(answered); });
}

void LaneHost::Crash() {
  desk_ = {};
  elastic_ = {};
  models_.clear();
}

void LaneHost::Answer(const LaneJob& job) {
  if (job.spec.has_value()) {
    models_.erase(job.experiment);
    models_.try_emplace(job.experiment, *job.spec, job.seed);
  }
  auto& told = sim_.truth.told[{job.experiment, job.epoch, job.observed_through}];
  told.assign(job.results.size(), {});
  for (size_t i = 0; i < told.size(); ++i)
    for (const RungResult& rung : job.results[i].rungs) told[i][rung.milestone] = rung.value;
  // The time of a model that is too slow is over after this many questions whether it is.
  uint64_t patience = UINT64_MAX;
  if (sim_.Strikes(sim_.plan.model_slow, Fault::kModelSlow)) patience = sim_.rng.Below(6);
  const GiveUp give_up = [&patience] { return patience == 0 || --patience == 0; };
  const input::LaneAnswered answered = models_.at(job.experiment).Answer(job, give_up);
  Require(!answered.points.empty() || !answered.explored.empty(),
          "the lane answers at least one number");
  NoteTruth(answered);
  if (sim_.Strikes(sim_.plan.model_silent, Fault::kModelSilent)) return;
  const bool is_late = sim_.Strikes(sim_.plan.model_slow, Fault::kModelLate);
  const Millis delay = is_late ? sim_.Between(500, 12'000) : sim_.Between(1, 40);
  sim_.At(delay, [this, answered] { post_(answered); });
  if (sim_.Strikes(sim_.plan.duplicated, Fault::kDuplicated))
    sim_.At(delay + sim_.Between(1, 800), [this, answered] { post_(answered); });
}

void LaneHost::NoteTruth(const input::LaneAnswered& answered) {
  uint32_t number = answered.from;
  for (const auto& [params, fallback] : answered.points)
    sim_.truth.proposed[{answered.experiment, number++}].insert({params, !fallback.empty()});
  for (const input::LaneAnswered::Explored& one : answered.explored)
    sim_.truth.explored.insert({TrialId{answered.experiment, one.trial}, one.params});
}

}  // namespace rt::sim
