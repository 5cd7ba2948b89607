// `auto` as a search algorithm of experiments (common/search/auto.h has the choice): it is asked on
// the compute lane, and a number without an answer gets its scrambled Sobol point. Searches every
// space without a grid.
#pragma once

#include "common/search/searcher.h"

namespace rt {

const Searcher& AutoSearch();

}  // namespace rt
