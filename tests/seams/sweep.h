// A search algorithm for tests: each trial is a step further along every number of the space.
#pragma once

#include "common/search/searcher.h"

namespace rt {

const Searcher& Sweep();

}  // namespace rt
