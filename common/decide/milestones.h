// Where successive halving decides, shared by the schedulers that have rungs. Pure.
#pragma once

#include <vector>

#include "common/base/limits.h"

namespace rt {

struct RungLadder {
  double grace_period = 1;
  double reduction_factor = 4;
  double max_t = 100;
};

// Milestones of a bracket, ascending: grace * factor^(k + bracket) for k = 0, 1, … up to max_t, by
// repeated multiplication, never logarithms, so that they are the same on every machine. A bracket
// beyond the last rung has none.
inline std::vector<double> MilestonesOf(const RungLadder& ladder, int bracket) {
  std::vector<double> milestones;
  double milestone = ladder.grace_period;
  for (int i = 0; i < bracket; ++i) milestone *= ladder.reduction_factor;
  while (milestone <= ladder.max_t && milestones.size() < limits::kRungsMax) {
    milestones.push_back(milestone);
    milestone *= ladder.reduction_factor;
  }
  return milestones;
}

}  // namespace rt
