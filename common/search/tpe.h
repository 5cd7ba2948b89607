// The tree-structured Parzen estimator: two mixtures of kernels describe where good and where other
// configurations are, and the next trial is the candidate whose ratio of the two densities is best.
// For real, integer, quantised and categorical axes, together in one product of kernels.
//
// Source: Bergstra et al., "Algorithms for hyper-parameter optimization", 2011, as Optuna 5 has it,
// with bandwidths, weights and a correlated kernel of our own (docs/search-quality.md has the
// figures). Only the order of the values counts, so any monotone scale gives the same answer.
//
// A pure function, equal to the bit on every machine; any thread; cost in O(history * axes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"

namespace rt {

// Lengths are in units of the cube's edge.
struct TpeOptions {
  // Scrambled Sobol points before the model; 0: one per axis, at least 8 and at most 50.
  size_t startup_trials = 0;
  // The part of the trials that counts as good, and the bounds of their number.
  double good_fraction = 0.1;
  size_t good_min = 2, good_max = 25;
  // Good trials weigh (ln(n + 0.5) - ln(rank - 0.5)) to this power.
  double rank_power = 1.5;
  // Of the other trials, the newest that keep their whole weight; older ones fade.
  size_t fresh_trials = 25;
  // Weight of a uniform kernel beside the trials, each of which weighs about 1.
  double good_prior = 0.1, other_prior = 0.3;
  // The weight of the uniform variance, 1/12, in the spread of a set of trials.
  double spread_prior = 0.3;
  // Bandwidths: these times the spread, times n^-1/2 (good) and n^(-1/(axes + 4)) (other).
  double good_bandwidth = 1.3, other_bandwidth = 0.4;
  double good_bandwidth_min = 0.003, other_bandwidth_min = 0.03;
  // The least bandwidth on an axis with steps, in widths of the trial's cell.
  double cell_bandwidth = 0.5;
  // What each category other than a trial's own weighs: this over the number of kernels.
  double category_prior = 1.0;
  // Every second trial draws from good kernels that follow the correlation of the best
  // max(good, this * axes) trials, damped by n / (n + correlation_damping * axes).
  double correlation_trials = 6, correlation_damping = 2;
  // Above so many numeric axes kernels are never correlated: the work grows with their square.
  size_t correlated_axes_max = 64;
  // Points drawn from the good mixture with bandwidths times `candidate_spread`.
  size_t candidates = 96;
  double candidate_spread = 1.2;
  // The exponent of the other density in the ratio.
  double other_exponent = 0.8;
  // In a space with conditions: a branch is chosen first (common/search/branches.h), with this
  // exploration, and its trials are compared with each other once it has `branch_trials` of them.
  // That holds while the branches have as many on average. 0: all trials are compared.
  double branch_exploration = 0;
  size_t branch_trials = 8;
  // Where values have noise (noise.h), trials nearer than this share them, and the model sees only
  // the newest: the best ones of long ago were lucky. 0: never.
  double smoothing = 0;
  // The history that the model sees: the newest and the best, so that a long search stays cheap.
  size_t newest_max = 500, best_max = 500;
};

// The newest version of `tpe`. Since 2 a branch of a space with conditions is chosen first; since 3
// values with noise are smoothed.
inline constexpr uint32_t kTpeVersion = 3;

// The options that a version has by default.
TpeOptions TpeDefaults(uint32_t version);

struct TpeAnswer {
  Point point;             // Snapped: discrete coordinates are centres of cells.
  bool from_model = true;  // False: a Sobol point, at the start or when no model can be made.
  bool repeated = false;   // Every configuration has been tried, and this is one of them.
};

// The point of trial `number`; `observations` does not hold this trial. nullopt: given up. An
// encoding without axes has one point, the empty one.
std::optional<TpeAnswer> SuggestTpe(const Encoding& encoding, const Observations& observations,
                                    uint64_t seed, uint64_t number, const TpeOptions& options = {},
                                    const GiveUp& give_up = {});

}  // namespace rt
