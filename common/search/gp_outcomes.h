// GP-BO where a search has several objectives or constraints (outcomes.h). For each trial the
// objectives are combined into one value by weights of its own, so that the trials spread along the
// front; constraints are processes of their own, and the expected improvement is multiplied by the
// probability that they are kept.
//
// Sources: Knowles, "ParEGO: a hybrid algorithm with on-line landscape approximation for expensive
// multiobjective optimization problems", 2006 (augmented Chebyshev weights); Gardner et al.,
// "Bayesian optimization with inequality constraints", 2014. Nothing is kept from one answer to the
// next. Pure; equal to the bit on every machine. Time: O(history^3) for an answer.
#pragma once

#include <cstdint>
#include <optional>

#include "common/search/gp.h"

namespace rt {

// The point of trial `number`, which `seen` does not hold. nullopt: given up.
std::optional<GpAnswer> SuggestGpOutcomes(const Encoding& encoding, const Observations& seen,
                                          uint64_t seed, uint64_t number, const GpOptions& options,
                                          const GiveUp& give_up);

}  // namespace rt
