// A time-varying Gaussian process bandit: which point of a cube to try next, when what points are
// worth drifts with time. It explores for PB2 (common/decide/pb2.h).
//
// Source: Parker-Holder et al., "Provably efficient online hyperparameter optimization with
// population-based bandits", 2020: a squared exponential kernel times (1 - e)^(|t - t'| / 2), and
// the upper confidence bound, in whose deviation the points that are being tried count as known.
// Length, e and noise are those of a small grid with the highest likelihood. The bound is searched
// by drawing points and by steps along the axes, without gradients. Pure; equal to the bit on every
// machine.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "common/search/model.h"

namespace rt {

struct BanditData {
  size_t axes = 0;
  std::vector<std::vector<double>> points;   // Each with a coordinate in [0, 1] for each axis.
  std::vector<double> times;                 // In units in which the worth changes noticeably.
  std::vector<double> values;                // More is better.
  std::vector<std::vector<double>> pending;  // Points that are being tried now.
  double now = 0;
};

// The point with the highest bound; a drawn one while fewer than 2 values are known or all are
// equal. nullopt: `give_up` said so, or the numbers have no answer. Cost: O(points^3), about 40 ms
// for 128 points.
std::optional<std::vector<double>> NextOfBandit(const BanditData& data, Rng& rng,
                                                const GiveUp& give_up);

}  // namespace rt
