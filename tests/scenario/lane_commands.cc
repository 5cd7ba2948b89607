#include "tests/scenario/lane_commands.h"

#include "common/base/strings.h"
#include "tests/scenario/words.h"

namespace rt::scenario {
namespace {

const char* KindName(TrialResult::Kind kind) {
  switch (kind) {
    case TrialResult::Kind::kOpen: return "open";
    case TrialResult::Kind::kBad: return "bad";
    case TrialResult::Kind::kUnknown: return "unknown";
    case TrialResult::Kind::kValue: break;
  }
  return "";
}

std::string Print(const LaneJob& job) {
  std::string clones;
  for (const ExploreQuestion& question : job.questions)
    clones += ", a clone of trial " + std::to_string(question.from) + " for trial " +
              std::to_string(question.trial) + " by " + std::to_string(question.samples.size()) +
              " intervals";
  if (!clones.empty()) return "asked: experiment " + std::to_string(job.experiment.value) + clones;
  std::vector<std::string> results;
  for (const TrialResult& result : job.results) {
    const bool has_value = result.kind == TrialResult::Kind::kValue;
    results.push_back(has_value ? FormatDouble(result.value) : KindName(result.kind));
  }
  return "asked: experiment " + std::to_string(job.experiment.value) + ", trials " +
         std::to_string(job.from) + " to " + std::to_string(job.from + job.count - 1) +
         ", results: " + (results.empty() ? "none" : Join(results, " "));
}

}  // namespace

// Of a job that trains with 16 samples on each rank, and has almost everything before it.
std::vector<ProfileReport> ReadMeasured(std::istream& words) {
  if (Next<std::string>(words) != "measured") return {};
  ProfileReport report{.fence = NextFence(words)};
  report.seq = Next<uint64_t>(words);
  report.profile = {.batches = {.initial = 16, .most = 48, .local_min = 16, .local_max = 16},
                    .noise = {.squared_norm = 0.0001, .variance = 1},
                    .progress = 10,
                    .total = 100'000};
  while (words >> std::ws, !words.eof()) {
    StepPoint point{.nodes = 1, .ranks = Next<uint32_t>(words), .local_batch = 16};
    point.count = Next<uint64_t>(words);
    point.step_mean = Next<double>(words);
    point.sync_mean = Next<double>(words);
    report.profile.points.push_back(std::move(point));
  }
  return {std::move(report)};
}

std::vector<std::string> StoryLane::Ask(const Core& core, Millis now) {
  for (ExperimentId closed : desk_.Close(core)) models_.erase(closed);
  std::vector<std::string> lines;
  for (const LaneJob& job : desk_.Ask(core, now)) {
    lines.push_back(Print(job));
    if (job.spec.has_value()) {
      models_.erase(job.experiment);
      models_.try_emplace(job.experiment, *job.spec, job.seed);
    }
    answers_[job.experiment] = models_.at(job.experiment).Answer(job, [] { return false; });
  }
  if (const auto question = elastic_.Ask(core, now)) {
    sizes_ = AnswerElastic(*question);
    for (const ElasticQuestion::Group& group : question->groups)
      lines.push_back("asked: sizes for " + FormatDouble(group.capacity) + " ranks");
    for (const SharedGroup& group : sizes_->answer.groups)
      for (const SharedJob& job : group.jobs)
        if (!job.fixed)
          lines.push_back("answer: " + ToString(job.attempt) + " " + std::to_string(job.ranks));
  }
  if (lines.empty()) lines.emplace_back("asked: nothing");
  return lines;
}

std::optional<Input> StoryLane::Answer(std::istream& words) {
  const auto answer = answers_.find({Next<uint64_t>(words)});
  if (answer == answers_.end()) return std::nullopt;
  if (Rest(words) != "again") desk_.Take(answer->second);
  return answer->second;
}

std::optional<Input> StoryLane::Share(std::istream& words) {
  if (!sizes_.has_value()) return std::nullopt;
  if (Rest(words) != "again") elastic_.Take(*sizes_);
  return *sizes_;
}

void StoryLane::Crash() {
  desk_ = {};
  elastic_ = {};
  models_.clear();
}

}  // namespace rt::scenario
