// Values with noise: whether trials have it, and places in the order of the trials without most of
// it. A place is the rank of a value among the others, so that any monotone scale of the values
// gives the same answer.
//
// Of our own research (docs/search-quality.md has the figures). Distances are Euclidean, in units
// of the cube's edge; trials of different categories are not compared. Pure; equal to the bit on
// every machine; any thread. Cost: O(trials^2 * axes).
#pragma once

#include <cstddef>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/observations.h"

namespace rt {

// Whether near trials differ as much as others do: the ranks of the nearest pairs of the newest
// trials, at least half as much (mean square) as those of pairs three to six times as far apart.
// False also where there are too few such pairs, or the nearest ones are farther apart than half of
// `distance`. Trials without a finite value do not count.
bool HasNoise(const Encoding& encoding, const std::vector<FinishedTrial>& finished,
              double distance);

// The newest trials by number, at most `most`, in any order, each with a smooth value: the mean of
// the ranks of all of them that are nearer than `distance`, weighed by 1 - (their distance /
// `distance`)^2. What is not finite stays.
std::vector<FinishedTrial> WithSmoothValues(const Encoding& encoding,
                                            const std::vector<FinishedTrial>& finished, size_t most,
                                            double distance);

}  // namespace rt
