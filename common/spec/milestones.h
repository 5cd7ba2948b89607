// Where successive halving decides: shared by the head's decisions and by `rt plan`. Pure.
#pragma once

#include <vector>

#include "common/spec/experiment_spec.h"

namespace rt {

// Milestones of a bracket, ascending: grace * rf^(k + bracket) for k = 0, 1, … up to max_t, by
// repeated multiplication. A bracket beyond the last rung has none.
inline std::vector<double> AshaMilestones(const AshaSpec& spec, int bracket) {
  std::vector<double> milestones;
  double milestone = spec.grace_period;
  for (int i = 0; i < bracket; ++i) milestone *= spec.reduction_factor;
  // The bound keeps a factor barely above 1 from making endless rungs.
  while (milestone <= spec.max_t && milestones.size() < 4'096) {
    milestones.push_back(milestone);
    milestone *= spec.reduction_factor;
  }
  return milestones;
}

}  // namespace rt
