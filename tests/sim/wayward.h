// A search model for the simulator: each configuration depends on all that it was told, and for
// some numbers it refuses, throws, or proposes what is not a number.
#pragma once

#include "common/search/searcher.h"

namespace rt {

const Searcher& Wayward();

}  // namespace rt
