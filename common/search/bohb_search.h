// BOHB's model as a search algorithm of experiments (common/search/bohb.h): it is asked on the
// compute lane and learns from what the scheduler has recorded at rungs. Searches every space
// without a grid. BOHB itself is this model with the scheduler `hyperband` and its `largest_first`.
#pragma once

#include "common/search/bohb.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& BohbSearch();

// The options as a spec has them; what it lacks has its default.
BohbOptions BohbOptionsFrom(const Json& options);

}  // namespace rt
