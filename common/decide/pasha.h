// Progressive asynchronous successive halving (PASHA; Bohdal et al. 2023): the promotion variant
// (asha_promotion.h) whose highest rungs are opened one by one. The search begins with the two
// lowest rungs of a bracket. The next rung is opened when the two highest open ones rank their
// common trials differently, up to differences that are within the noise. Pure.
//
// The paper measures the noise by rankings that change from epoch to epoch and back. The head keeps
// the values at the rungs only: here it is `tolerance` standard deviations of the common trials'
// values at the lower rung, as in the paper's ablation.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& Pasha();

}  // namespace rt
