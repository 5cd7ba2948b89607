// The model of MOBSTER as a search algorithm of experiments (common/search/mobster.h): it is asked
// on the compute lane and learns from what the scheduler has recorded at rungs. Searches spaces of
// at most 100 parameters without a grid. MOBSTER itself is this model with `asha_promotion`.
#pragma once

#include "common/search/mobster.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& MobsterSearch();
// Version 1, for experiments that began with it. Version 1 does not stretch the best values.
const Searcher& MobsterSearchUnstretched();

// The options of a spec, by its version; what they lack has its default.
MobsterOptions MobsterOptionsFrom(const AlgorithmSpec& search);

}  // namespace rt
