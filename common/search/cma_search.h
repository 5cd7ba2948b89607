// CMA-ES as a search algorithm of experiments (common/search/cma.h has the model): it is asked on
// the compute lane, and a number without an answer gets its scrambled Sobol point. The value of a
// trial is the best one that its rows have. Searches every space without a grid that has a numeric
// parameter, and at most kCmaAxesMax of them.
#pragma once

#include "common/search/cma.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& CmaSearch();
// Its version 1, for experiments that began with it: its first trials are Sobol points, and not the
// middle of the space.
const Searcher& CmaSearchFromSobol();

// The options of a spec, by its version; what they lack has its default.
CmaOptions CmaOptionsFrom(const AlgorithmSpec& search);

}  // namespace rt
