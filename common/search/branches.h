// The branches of a space with conditions: configurations that have the same parameters are in one
// branch. A model compares the trials of one branch with each other, and this chooses the branch
// that the next trial is in.
//
// Only the order of the values counts. Pure; made for one answer, refers to the observations that
// it is made of.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/observations.h"

namespace rt {

struct Branch {
  std::vector<bool> axes;  // By axis of the encoding: whether the branch has it.
  std::vector<const FinishedTrial*> finished;
  size_t in_flight = 0;
  size_t best_rank = 0;  // Of its best trial among all trials, from 1; failed ones share the last.
  size_t trials() const { return finished.size() + in_flight; }
};

// The branches that trials were in, ordered by their axes.
std::vector<Branch> BranchesOf(const Encoding& encoding,
                               const std::vector<const FinishedTrial*>& finished,
                               const std::vector<FlyingTrial>& in_flight);

// For the next trial, the best choice first: by the product of the rank of the branch's best trial
// and its number of trials to the power of `exploration`, the lowest first. A branch therefore gets
// trials in proportion to that rank to the power of -1 / exploration.
std::vector<const Branch*> InOrderOfChoice(const std::vector<Branch>& branches, double exploration);

}  // namespace rt
