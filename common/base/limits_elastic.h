// Bounds of elastic attempts (head/core/elastic.h).
#pragma once

#include "common/base/time.h"

namespace rt::limits {

// The least time between two sizes of an elastic attempt, unless the cluster says otherwise: a
// resize costs seconds, and what it brings has to pay for them. And how often the head looks
// whether a policy has to be asked.
inline constexpr Millis kElasticInterval = 30'000;
inline constexpr Millis kElasticLookEvery = 200;

}  // namespace rt::limits
