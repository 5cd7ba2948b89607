// `auto` as a search algorithm of experiments (common/search/auto.h has the choice): it is asked on
// the compute lane, and a number without an answer gets its scrambled Sobol point. Searches every
// space without a grid.
#pragma once

#include "common/search/searcher.h"

namespace rt {

const Searcher& AutoSearch();
// Version 4: its GP-BO is version 1, and not for conditional parameters.
const Searcher& AutoSearchWithOldGp();
// Version 3: its TPE is version 1.
const Searcher& AutoSearchWithOldTpe();
// Version 2: its MOBSTER is version 1.
const Searcher& AutoSearchUnstretched();
// Version 1, which does not look at the scheduler: TPE, GP-BO or CMA-ES of its version 1.
const Searcher& AutoSearchWithoutRungs();

}  // namespace rt
