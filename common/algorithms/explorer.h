// The configuration that a clone gets from a model of its population's progress (PB2), for the
// compute lane. A function of its arguments alone; throws nothing. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "common/decide/scheduler.h"
#include "common/search/model.h"

namespace rt {

struct Exploration {
  std::string params;    // JSON.
  std::string fallback;  // Why the model had no answer; empty: the configuration is the model's.
};

// `is_failed`: the model is known to have had no answer, as a journal says; the values are drawn
// then.
Exploration ExploreFor(const ExperimentSpec& spec, uint64_t seed, const ExploreQuestion& question,
                       const GiveUp& give_up, bool is_failed = false);

}  // namespace rt
