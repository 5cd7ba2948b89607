// Population based bandits (PB2; Parker-Holder et al. 2020): population based training (pbt.h) in
// which the new configuration of a clone comes from a time-varying Gaussian process bandit over the
// changes of the metric (common/search/bandit.h). The model is asked on the compute lane; the trial
// keeps running until it has answered. Pure.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& Pb2();

// The option with the bounds of each explored parameter: {name: [lower, upper]}.
inline constexpr char kBoundsOption[] = "hyperparam_bounds";

}  // namespace rt
