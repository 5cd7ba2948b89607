// Grid and random search: the configuration of trial `number`, as a pure function of (space, seed,
// number), so that any trial can be drawn again and no generator state is kept.
//
// Order: number = sample * grid_points + point. Within the grid, variables are sorted by path and
// the first varies fastest; each (sample, point) draws the random variables anew, unless the points
// of a grid share a draw. The first samples may take given values as they are. Source: Ray
// Tune's BasicVariantGenerator; quantised domains include their upper bound with equal weight.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/json.h"
#include "common/base/rng.h"
#include "common/search/searcher.h"

namespace rt {

const Searcher& BasicSearch();

// nullopt when the search is exhausted.
std::optional<Json> SuggestBasic(const ExperimentSpec& spec, uint64_t seed, uint64_t number);

// One draw from a domain other than a grid.
Json Draw(const Domain& domain, Rng& rng);
Drawn DrawPlaced(const Domain& domain, Rng& rng);

}  // namespace rt
