// The trials by the rungs of their scheduler, for models that learn at one rung. Pure.
#pragma once

#include <map>
#include <vector>

#include "common/search/observations.h"

namespace rt {

// By milestone, the trials that have a value there; those that failed have NaN. A trial that has
// ended without having been at a rung counts as one that was trained to its end, and a failed one
// as bad at each rung above those that it had reached.
using TrialsByRung = std::map<double, std::vector<FinishedTrial>>;
TrialsByRung RungsOf(const Observations& seen);

}  // namespace rt
