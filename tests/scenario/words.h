// The words of a story's command, one after the other.
#pragma once

#include <cstdio>
#include <istream>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "head/core/core.h"

namespace rt::scenario {

inline std::string Rest(std::istream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}
template <class T>
T Next(std::istream& words) {
  T value{};
  words >> value;
  return value;
}
inline Fence NextFence(std::istream& words) {
  const std::string text = Next<std::string>(words);
  auto fence = ParseFence(text);
  if (!fence) std::fprintf(stderr, "scenario: '%s' is no fence\n", text.c_str());
  return fence.value_or(Fence{});
}

// What follows `resume exp N`: [failed=FATE] [unfinished=FATE] [finished=FATE]
inline input::ResumeExperiment ResumeFrom(ExperimentId experiment, std::istream& words) {
  input::ResumeExperiment resume{experiment};
  for (std::string word; words >> word;) {
    const std::vector<std::string> said = Split(word, '=');
    const auto action = said.back() == "keep"    ? input::ResumeExperiment::TrialAction::kLeave
                        : said.back() == "retry" ? input::ResumeExperiment::TrialAction::kResume
                                                 : input::ResumeExperiment::TrialAction::kRestart;
    if (said[0] == "failed") resume.failed = action;
    if (said[0] == "unfinished") resume.unfinished = action;
    if (said[0] == "finished") resume.finished = action;
  }
  return resume;
}

}  // namespace rt::scenario
