// The compute lane of a story: the production desk and models, whose answers come when a command
// says so.
//
//   ask                   what the lane is asked now; its answers are computed
//   propose EXP [again]   the newest answer for the experiment comes; again: a second time
//   share [again]         the newest answer about elastic attempts comes
//   sync NAME measured FENCE SEQ (RANKS COUNT STEP_S SYNC_S)...   with what a rank 0 has measured
// `wait` gives an answer in place of one that is overdue.
#pragma once

#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/elastic.h"
#include "head/core/lane.h"

namespace rt::scenario {

// What follows "sync NAME".
std::vector<ProfileReport> ReadMeasured(std::istream& words);

class StoryLane {
 public:
  // One line for each question.
  std::vector<std::string> Ask(const Core& core, Millis now);
  // nullopt: there is no answer.
  std::optional<Input> Answer(std::istream& words);
  std::optional<Input> Share(std::istream& words);
  std::vector<input::LaneAnswered> Overdue(const Core& core, Millis now) {
    return desk_.Overdue(core, now);
  }
  void Crash();

 private:
  LaneDesk desk_;
  ElasticDesk elastic_;
  std::optional<input::ElasticAnswered> sizes_;
  std::map<ExperimentId, LaneModel> models_;
  std::map<ExperimentId, input::LaneAnswered> answers_;  // The newest of each.
};

}  // namespace rt::scenario
