// The algorithms that this program knows: one line each in registry.cc. A test that needs others
// defines these two functions itself and lists what it wants; the linker then leaves registry.cc
// out. The first of each list is the default. Pure.
#pragma once

#include <vector>

#include "common/decide/scheduler.h"
#include "common/search/searcher.h"

namespace rt {

// Several versions of one algorithm may be listed.
const std::vector<const Searcher*>& Searchers();
const std::vector<const Scheduler*>& Schedulers();

// The one that the spec names, in the version that it names, or else in the newest; the default
// where the name is not known, as in a spec that was not parsed.
const Searcher& SearcherOf(const ExperimentSpec& spec);
const Scheduler& SchedulerOf(const ExperimentSpec& spec);

}  // namespace rt
