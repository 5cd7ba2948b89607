// Search models and the compute lane (design rule 7, adr/0026). What a model is asked is a function
// of the state: nothing about it is journalled but its answer. A LaneJob is a value; its answer
// follows from it alone, so the same job gives the same answer on any thread, now or when a journal
// is checked. The head never depends on a model: a number that gets no answer takes what its search
// algorithm proposes without one, and Answered says why.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/algorithms/guarded_model.h"
#include "common/search/model.h"
#include "head/core/core.h"

namespace rt {

// The configurations of trials `from` to `from + count - 1`, by what the records up to
// `observed_through` say.
struct LaneJob {
  ExperimentId experiment;
  uint64_t epoch = 0;  // Of the head that asks.
  uint64_t observed_through = 0;
  uint32_t from = 0;
  uint32_t count = 0;
  std::vector<TrialResult> results;  // Of all trials below `from`.
  // The configurations, JSON, of the trials from `params_from` on: the lane has those before.
  uint32_t params_from = 0;
  std::vector<std::string> params;
  // Where the lane has nothing of this experiment yet.
  std::optional<ExperimentSpec> spec;
  uint64_t seed = 0;
  // Or configurations of clones; `count` is 0 then.
  std::vector<ExploreQuestion> questions;
};

// One experiment on the lane. Used by one thread at a time; throws nothing.
class LaneModel {
 public:
  LaneModel(const ExperimentSpec& spec, uint64_t seed);

  // One configuration at least; fewer than asked for when `give_up` says that the time is over.
  // `failed`: numbers that are known to have got no answer, and why (AnswerChecker).
  input::LaneAnswered Answer(const LaneJob& job, const GiveUp& give_up,
                             const std::map<uint32_t, std::string>& failed = {});

 private:
  const ExperimentSpec spec_;
  const uint64_t seed_;
  GuardedModel model_;
};

// What the records say of the experiment's trials, by number.
std::vector<TrialResult> ResultsOf(const Experiment& experiment, const ExperimentIndex& index);
// How many configurations its model is to propose now: for all free capacity, and one trial ahead.
// More would be proposed without the results of what runs.
size_t WantedOfModel(const Core& core, ExperimentId id, Millis now);
// Which configurations those of these trials get that are to be cloned; none for one that is not,
// or was since its newest milestone.
std::vector<ExploreQuestion> QuestionsOf(const World& world, ExperimentId id,
                                         const std::vector<uint32_t>& trials);
// What the lane's answer becomes.
event::Answered ClonesOfLane(const World& world, const input::LaneAnswered& answered);
event::Answered AnswerOfLane(const World& world, const input::LaneAnswered& answered);

// Which jobs are under way, one for each experiment at most. Soft: a head that starts asks anew.
// Owned by whoever runs the core (the loop, or the simulator's head), on its thread.
class LaneDesk {
 public:
  // What the lane is to be asked now, after each batch of inputs.
  std::vector<LaneJob> Ask(const Core& core, Millis now);
  // Answers in place of a lane that does not come back.
  std::vector<input::LaneAnswered> Overdue(const Core& core, Millis now);
  // The lane has answered.
  void Take(const input::LaneAnswered& answered);
  // Experiments that the lane may forget.
  std::vector<ExperimentId> Close(const Core& core);

 private:
  struct Place {
    bool is_known = false;  // The lane has its spec,
    uint32_t known = 0;     // and the configurations of its trials below this.
    bool is_under_way = false;
    Millis waited = 0;
    size_t recorded = 0;                     // In all rungs together, when they were looked at.
    std::map<uint32_t, size_t> asked;        // By trial: comparisons that were looked at.
    uint64_t asked_through = 0;              // The record up to which `questions` were read.
    std::vector<ExploreQuestion> questions;  // Of the job that is under way.
  };
  // The trials that have been compared since the last look, and are to be cloned.
  static std::vector<ExploreQuestion> NewQuestions(const World& world, ExperimentId id,
                                                   Place& place);
  std::map<ExperimentId, Place> places_;
  Millis looked_at_ = 0;
};

}  // namespace rt
