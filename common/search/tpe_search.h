// TPE as a search algorithm of experiments (common/search/tpe.h has the model): it is asked on the
// compute lane, and a number without an answer gets its scrambled Sobol point. The value of a trial
// is the best one that its rows have. Searches every space without a grid.
#pragma once

#include "common/search/searcher.h"
#include "common/search/tpe.h"

namespace rt {

const Searcher& TpeSearch();
// Version 2: noise in the values changes nothing.
const Searcher& TpeSearchWithoutSmoothing();
// Version 1: in a space with conditions, it compares the trials of all branches with each other.
const Searcher& TpeSearchWithoutBranches();

// The options as a spec has them; what it lacks has the default of its version.
TpeOptions TpeOptionsFrom(const AlgorithmSpec& search);

}  // namespace rt
