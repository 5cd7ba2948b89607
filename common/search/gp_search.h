// GP-BO as a search algorithm of experiments (common/search/gp.h has the model): it is asked on the
// compute lane, and a number without an answer gets its scrambled Sobol point. The value of a trial
// is the best one that its rows have. Searches every space without a grid of at most kGpAxesMax
// parameters.
#pragma once

#include "common/search/gp.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& GpSearch();
// Version 1.
const Searcher& GpSearchWithoutNoise();

// The options as a spec has them; what it lacks has the default of its version.
GpOptions GpOptionsFrom(const AlgorithmSpec& search);

}  // namespace rt
