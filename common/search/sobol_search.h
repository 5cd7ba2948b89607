// A configuration that follows from (space, seed, number) alone and fills the space evenly: what a
// trial gets where a model has nothing to say. Pure.
#pragma once

#include <cstdint>

#include "common/base/json.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// The scrambled Sobol point, with the point that the spec gives this number laid over it. Where the
// space has a grid, which is no cube: what random search draws.
Json SobolConfiguration(const ExperimentSpec& spec, uint64_t seed, uint64_t number);

}  // namespace rt
