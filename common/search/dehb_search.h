// DEHB's differential evolution as a search algorithm of experiments (common/search/dehb.h): it is
// asked on the compute lane and learns from what the scheduler has recorded at rungs. Searches
// every space without a grid. DEHB itself is this search with the scheduler `hyperband`.
#pragma once

#include "common/search/dehb.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& DehbSearch();

// The options as a spec has them; what it lacks has its default.
DehbOptions DehbOptionsFrom(const Json& options);

}  // namespace rt
