// Reads a journal from its first record and computes every answer of the head's algorithms again,
// and every decision at a rung: each must be equal to the bit. It proves that an answer is a
// function of the records before it, so that an algorithm's memory after a restart is the one that
// it had. The simulator and the tests of recorded journals run it. Pure; keeps a World of its own.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/decide/scheduler.h"
#include "common/search/model.h"
#include "head/core/core.h"
#include "head/core/profiles.h"

namespace rt {

class AnswerChecker {
 public:
  AnswerChecker() = default;
  explicit AnswerChecker(World world);  // Begins at this state.

  // Applies the record. DataLoss names the first record whose answer is another one.
  absl::Status See(const Record& record);
  uint64_t answers() const { return answers_; }  // That were computed again.
  // Of an experiment: how many different lists of questions to the compute lane are remembered.
  size_t QuestionsKept(ExperimentId id) const {
    const auto kept = questions_.find(id);
    return kept == questions_.end() ? 0 : kept->second.size();
  }

  // How many states of what elastic jobs had measured are remembered.
  size_t MemoriesKept() const { return memories_.size(); }

 private:
  struct Noted {
    Millis at = 0;
    ElasticMemory memory;
  };
  struct Shared {
    Millis at = 0;
    std::vector<SharedGroup> groups;
  };
  absl::Status CheckRung(const event::RungRecorded& rung);
  absl::Status CheckAnswer(const event::Answered& answer) const;
  absl::Status CheckSizes(const event::SizesAnswered& answer);
  event::Answered Recompute(const event::Answered& answer) const;
  event::Answered OfModel(const event::Answered& answer) const;
  event::Answered OfExplorer(const event::Answered& answer) const;
  void NoteQuestions(ExperimentId id);
  void NoteResults(ExperimentId id);
  void NoteAnswer(const event::Answered& answer);
  void NoteProfiles(Millis at);
  void NoteShared(Millis at);
  std::optional<uint32_t> LastRecorded(ExperimentId id) const;
  TrialVerdict VerdictOfRow(TrialId id) const;

  World world_;
  std::map<TrialId, TrialVerdict> at_rung_;     // What followed last from each trial's rungs.
  // By record: what the compute lane might have been asked about clones from there on.
  std::map<ExperimentId, std::map<uint64_t, std::map<uint32_t, ExploreQuestion>>> questions_;
  std::map<ExperimentId, TrialId> last_ended_;  // Of each experiment.
  std::map<ExperimentId, uint32_t> last_recorded_;  // The trial that was at a milestone last.
  // Of experiments with a model: what was known after each record since its last answer.
  std::map<ExperimentId, std::map<uint64_t, std::vector<TrialResult>>> results_;
  // By record: what was known of elastic jobs from there on, as far back as an answer may have
  // read.
  std::map<uint64_t, Noted> memories_;
  std::map<uint64_t, Shared> shared_;  // The same of what a policy may have been asked about.
  uint64_t answers_ = 0;
};

}  // namespace rt
