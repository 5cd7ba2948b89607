// The model of BOHB: a density model of the trials at one rung, the highest at which enough of them
// have values. A part of the trials is spread evenly instead, so that a search is never much slower
// than HyperBand alone.
//
// Source: Falkner, Klein, Hutter, "BOHB: robust and efficient hyperparameter optimization at
// scale", 2018: the choice of the rung, and the defaults of the authors' program. The densities are
// those of tpe.h, which find far better configurations with as many trials than kernels of the
// normal reference rule do (docs/search.md).
// A pure function, equal to the bit on every machine; any thread; cost in O(history * axes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"

namespace rt {

struct BohbOptions {
  double random_fraction = 1.0 / 3;  // Of the trials, those that are spread evenly.
  double good_fraction = 0.15;       // Of the trials at a rung, those that are good.
  // A rung with two more values than this has a model. 0: one more than there are axes.
  size_t rows_min = 0;
  size_t candidates = 64;
};

struct BohbAnswer {
  Point point;  // Snapped: discrete coordinates are centres of cells.
  // The rung that the model was made of; nullopt: a Sobol point.
  std::optional<double> milestone;
  bool repeated = false;  // Every configuration has been tried, and this is one of them.
};

// The point of trial `number`; `observations` does not hold this trial. nullopt: given up. A trial
// without rungs counts as one that was trained to its end, and a failed one as bad at each rung
// above those that it had reached.
std::optional<BohbAnswer> SuggestBohb(const Encoding& encoding, const Observations& observations,
                                      uint64_t seed, uint64_t number,
                                      const BohbOptions& options = {}, const GiveUp& give_up = {});

}  // namespace rt
