// The median stopping rule (Golovin et al. 2017), with the decisions and options of Ray's
// MedianStoppingRule: after the grace period a trial is stopped when its best value is worse than
// the median of the other trials' running means at the same time. Pure: the head keeps the means
// (common/spec/curve.h).
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& MedianStopping();
// The same rule with a percentile of the means in the place of their median.
const Scheduler& PercentileStopping();

// The median of the values that are numbers; NaN: none is.
double MedianOf(std::vector<double> values);

}  // namespace rt
