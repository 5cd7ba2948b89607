// Bayesian optimisation with a Gaussian process (GP-BO): the next trial is the point where the
// process expects the largest improvement. Best for few trials that are expensive, of up to about
// 20 parameters.
//
// Sources: value_model.h, improvement_search.h and gaussian_process.h name those of their parts;
// Eriksson et al., "Scalable global optimization via local Bayesian optimization", 2019 (the
// region round the best trial, which grows with success and shrinks without); Ru et al., "Bayesian
// optimisation over multiple continuous and categorical inputs", 2020 (categories are equal or
// not); the constants are of our own research (docs/search-quality.md has the figures).
//
// An object is a cache: what Suggest returns is a function of its arguments, and results that
// continue those of the call before cost only what is new. Results are taken in the order in which
// the trials ended. Equal to the bit on every machine; one thread at a time. Time: O(history_max^3)
// for a proposal. Memory: O(trials * axes + history_max^2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"
#include "common/search/taken.h"
#include "common/search/value_model.h"

namespace rt {

// More axes than this are not searched: a fit follows a gradient in as many dimensions.
inline constexpr size_t kGpAxesMax = 100;
// Fewer results than this are no history.
inline constexpr size_t kGpHistoryMin = 20;

struct GpOptions {
  // Scrambled Sobol points before the model; 0: one per axis, at least 6 and at most 50.
  size_t startup_trials = 0;
  // Of more results than this the process sees half of it as the best, and the rest evenly by rank.
  size_t history_max = 400;
  // One trial of so many is searched for in a region round the best one; 0: none. With more than
  // kManyAxes axes it is the other way round.
  size_t local_every = 3;
  // The probability, before any value is known, that values are noisy: that trials of one
  // configuration would differ by some per cent of the range of the values. Version 1 has none.
  double noise_chance = 0;
};

inline constexpr uint32_t kGpVersion = 2;

// The defaults of a version of `gp`.
GpOptions GpDefaults(uint32_t version);

struct GpAnswer {
  Point point;             // Snapped: discrete coordinates are centres of cells.
  bool from_model = true;  // False: a Sobol point.
  bool repeated = false;   // Every configuration has been tried, and this is one of them.
  std::optional<ModelBelief> belief = {};  // nullopt for a Sobol point.
};

class GpOptimizer {
 public:
  // `encoding` outlives it, and has at most kGpAxesMax axes.
  GpOptimizer(const Encoding& encoding, uint64_t seed, const GpOptions& options = {});

  // The point of trial `number`, which `seen` does not hold. nullopt: given up; the next call
  // continues where this one was.
  std::optional<GpAnswer> Suggest(const Observations& seen, uint64_t number,
                                  const GiveUp& give_up = {});

 private:
  struct Result {
    uint64_t number;
    Point point;
    double value;
  };
  // The region round the best trial: its side is in units of the cube's edge, before lengths.
  struct Region {
    double side;
    size_t better = 0, worse = 0;  // Results in a row.
  };

  // Takes the results that are new. False: given up.
  bool CatchUp(const Observations& seen, const GiveUp& give_up);
  bool Continues(const std::vector<const FinishedTrial*>& ordered) const;
  void Forget(size_t results);
  void Take(const FinishedTrial& trial);
  void AdaptRegion(double value);
  bool Learn(const GiveUp& give_up);
  size_t StartOfLearning(size_t results) const;
  bool HasModel() const;
  std::vector<size_t> History(size_t most) const;
  GaussianData DataOf(const std::vector<size_t>& history) const;
  bool IsLocal(uint64_t number) const;
  // nullopt: given up. Empty: the model has no answer.
  std::optional<Point> Improvement(const Observations& seen, const Taken& taken, uint64_t number,
                                   Rng& rng, const GiveUp& give_up);
  // Predicts the values of the best result and of `point`, which trial `number` gets.
  ModelBelief BeliefAt(const Point& point, uint64_t number) const;

  const Encoding& encoding_;
  const uint64_t seed_;
  const GpOptions options_;

  // What follows from the results that were taken.
  std::vector<Result> results_;  // In their order.
  size_t finite_ = 0;
  double least_ = 0, most_ = 0;  // Of the finite values.
  Region region_;
  ValueModel model_;
  size_t learned_ = 0;                                  // It has learned from so many results,
  size_t learns_from_ = 0;                              // and from this number on.
  std::optional<ValueModel::Conditioned> conditioned_;  // On what it has learned from.
};

}  // namespace rt
