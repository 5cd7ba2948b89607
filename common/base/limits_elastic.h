// Bounds of elastic attempts (head/core/elastic.h, head/core/profiles.h).
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// The least time between two sizes of an elastic attempt, and between two records of what an
// attempt has measured, unless the cluster says otherwise: a resize costs seconds, and what it
// brings has to pay for them.
inline constexpr Millis kElasticInterval = 30'000;
// The least time between two questions to a policy, where the interval above is not shorter still.
// A question copies every profile (3 MiB) on the core thread, and a resize takes seconds anyway.
inline constexpr Millis kElasticAskEvery = 2'000;
// How often the head looks whether a policy has to be asked.
inline constexpr Millis kElasticLookEvery = 200;

// Shapes of steps that the head keeps of one owner, and takes of one message: 8 sizes with 4
// batches each. With 100 bytes each a profile has 3 KiB.
inline constexpr size_t kProfilePointsMax = 32;
// Owners whose profiles the head keeps, which is a bound of 3 MiB on them: the live ones, and of
// each class of jobs the last ones that have ended, from which the next job of the class begins.
inline constexpr size_t kProfilesMax = 1'024;
inline constexpr size_t kClassProfilesEndedMax = 8;
// Profiles of a class that a policy reads, the newest: each costs a fit of some milliseconds.
inline constexpr size_t kClassProfilesMax = 16;
// Profiles in one Sync: the attempts that can have their rank 0 on one node.
inline constexpr int kProfilesOfNodeMax = 1'024;
// The name of a kind of gpu.
inline constexpr size_t kGpuTypeBytesMax = 64;
// Larger numbers in a measurement are mistakes, which would spoil a fit. The line is refused.
inline constexpr double kStepSecondsMax = 1e6;
inline constexpr double kElasticNumberMax = 1e15;

}  // namespace rt::limits
