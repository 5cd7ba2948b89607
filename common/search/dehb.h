// Differential evolution on the trials at one rung, as in DEHB: a new configuration takes some
// parameters of a good one, and the others from a good one that is moved by the difference of two
// more.
//
// Source: Awad, Mallik, Hutter, "DEHB: evolutionary hyperband for scalable, robust and efficient
// hyperparameter optimization", 2021; Storn and Price, "Differential evolution", 1997 (rand/1/bin).
// Unlike there, a promoted trial keeps its configuration, so that it continues from its checkpoint
// (docs/search.md).
// A pure function, equal to the bit on every machine; any thread; cost in O(history * axes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"

namespace rt {

struct DehbOptions {
  double weight = 0.5;     // Of the difference that moves a configuration.
  double crossover = 0.5;  // How often a parameter is that of the moved configuration.
  // The best trials at a rung from which new ones descend. A rung with fewer has no population; the
  // lowest needs four.
  size_t population_size = 20;
};

struct DehbAnswer {
  Point point;  // Snapped: discrete coordinates are centres of cells.
  // The rung of the population; nullopt: a Sobol point.
  std::optional<double> milestone;
  bool repeated = false;  // Every configuration has been tried, and this is one of them.
};

// The point of trial `number`; `observations` does not hold this trial. nullopt: given up.
std::optional<DehbAnswer> SuggestDehb(const Encoding& encoding, const Observations& observations,
                                      uint64_t seed, uint64_t number,
                                      const DehbOptions& options = {}, const GiveUp& give_up = {});

}  // namespace rt
