// What algorithms answer, as one event each. Step emits the answers; AnswerChecker computes them
// again from the journal with the same functions. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/algorithms/registry.h"
#include "head/core/draft.h"

namespace rt {

// The algorithm that events name where a driver answers.
inline constexpr char kDriverAlgorithm[] = "driver";

// An empty answer of an algorithm of the head that has read every record so far.
event::Answered AnswerOf(const World& world, ExperimentId id, const AlgorithmTable& table);

// A trial with that configuration, in the bracket that the scheduler draws.
CreatedTrial NewTrial(const World& world, ExperimentId id, uint32_t number, std::string params);
// Adds that trial to an answer, paused where a driver selects when it runs.
void AddNewTrial(const World& world, event::Answered& answer, uint32_t number, std::string params);
// What its search algorithm proposes for the next `count` trials; fewer where the search or the
// size of an answer ends.
event::Answered ProposalOf(const World& world, ExperimentId id, size_t count);
// What its scheduler makes of a trial by a verdict other than kContinue.
event::Answered VerdictOn(const World& world, TrialId id, const TrialVerdict& verdict);
// What its scheduler answers to the end of a trial.
event::Answered AnswerToEnd(const World& world, TrialId ended);

// What its scheduler says of a row of rank 0. `best`: of the trial's values, the row's included.
RowVerdict OnRow(const World& world, const Trial& trial, const RowView& row,
                 std::optional<double> best);
// What its scheduler makes of the trials that it has paused, and of the population once a trial was
// recorded at a milestone.
event::Answered ReviewOf(const World& world, ExperimentId id, std::optional<uint32_t> recorded);
// The trial whose checkpoint this one is to take, where the compute lane explores; nullopt: none.
std::optional<uint32_t> ParentOf(const World& world, TrialId recorded);
// Other trials take checkpoints from the store: those with replicas only may be lost before. 0:
// none.
uint64_t NewestStored(const Runs& runs);
// The milestone's values as they are before the trial's own is recorded.
// `with_checkpoint`: the row that has the value came with one.
TrialVerdict DecideAt(const World& world, TrialId id, double milestone, double value,
                      bool with_checkpoint);

// Emits the answer, and the ends of stopped trials that do not run. Nothing when it is empty.
void EmitAnswer(Draft& draft, event::Answered answer);

}  // namespace rt
