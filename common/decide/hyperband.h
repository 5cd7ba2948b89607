// HyperBand (Li et al. 2018), synchronous, with the brackets and options of Ray's
// HyperBandScheduler. The trials of a bracket are paused at each rung until all of them are there;
// then the best 1/reduction_factor continue, and the others are stopped. Pure.
//
// Trial numbers fill the brackets of a band in order, and band after band: bracket b of an
// experiment is the bracket b % S of Ray's, where S is how many a band has.
#pragma once

#include <cstdint>
#include <vector>

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& HyperBand();

struct HyperBandBracket {
  uint64_t trials = 0;             // That it begins with.
  std::vector<double> milestones;  // Ascending; at the last one its trials have trained to the end.
};
// The brackets of a band in the order of Ray's: the first one trains few trials to max_t at once.
std::vector<HyperBandBracket> BandOf(double max_t, double reduction_factor);

}  // namespace rt
