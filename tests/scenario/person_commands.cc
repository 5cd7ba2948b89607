#include "tests/scenario/person_commands.h"

#include <set>

#include "common/base/strings.h"
#include "tests/scenario/words.h"

namespace rt::scenario {
namespace {

using TrialAction = input::ResumeExperiment::TrialAction;

input::ResumeExperiment ResumeFrom(ExperimentId experiment, std::istream& words) {
  input::ResumeExperiment resume{experiment};
  for (std::string word; words >> word;) {
    const std::vector<std::string> said = Split(word, '=');
    const auto action = said.back() == "keep"    ? TrialAction::kLeave
                        : said.back() == "retry" ? TrialAction::kResume
                                                 : TrialAction::kRestart;
    if (said[0] == "failed") resume.failed = action;
    if (said[0] == "unfinished") resume.unfinished = action;
    if (said[0] == "finished") resume.finished = action;
  }
  return resume;
}

Input OfTrial(const std::string& verb, TrialId trial, std::istream& words) {
  if (verb == "stop") return input::StopTrial{trial, "by hand"};
  if (verb == "pause") return input::PauseTrial{trial, PauseCause::kUser, "by hand"};
  if (verb == "resume") return input::ResumeTrial{trial};
  if (verb == "retry") return input::RetryTrial{trial};
  input::ResizeRun resize{.owner = Owner::Of(trial), .ranks = Next<uint32_t>(words)};
  if (const Millis within = Next<Millis>(words); within != 0) resize.save_within = within;
  return resize;
}

}  // namespace

std::optional<Input> PersonsRequest(const std::string& verb, std::istream& words) {
  static const std::set<std::string> verbs = {"stop",  "pause",  "resume",
                                              "retry", "extend", "resize"};
  if (!verbs.contains(verb)) return std::nullopt;
  const std::string noun = Next<std::string>(words), id = Next<std::string>(words);
  if (noun == "trial") return OfTrial(verb, ParseTrialId(id).value_or(TrialId{}), words);
  const uint64_t number = std::stoull(id);
  if (noun == "job" && verb == "resize")
    return input::ResizeRun{Owner::Of(JobId{number}), Next<uint32_t>(words)};
  if (noun == "job") return input::StopJob{{number}, "by hand"};
  const ExperimentId experiment{number};
  if (verb == "stop") return input::StopExperiment{experiment, "by hand"};
  if (verb == "pause") return input::PauseExperiment{experiment, "by hand"};
  if (verb == "extend") return input::ExtendExperiment{experiment, Next<int64_t>(words), 0};
  return ResumeFrom(experiment, words);
}

}  // namespace rt::scenario
