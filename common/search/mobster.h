// A Gaussian process over (configuration, rung) for searches whose trials are compared at rungs, as
// in MOBSTER: the next trial is the point where the process expects the largest improvement at the
// highest rung that has values, and learns from the values at all rungs, also of trials that run or
// are paused.
//
// Sources: Klein, Tiao, Lienart, Archambeau, Seeger, "Model-based asynchronous hyperparameter and
// neural architecture search", 2020; rung_process.h and improvement_search.h name those of their
// parts. What differs from the paper is in docs/search.md.
//
// An object is a cache: what Suggest returns is a function of its arguments, whatever was asked
// before. Equal to the bit on every machine; one thread at a time. Time: O(rungs * history_max^3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/model.h"
#include "common/search/observations.h"
#include "common/search/rung_process.h"
#include "common/search/rungs.h"
#include "common/search/taken.h"

namespace rt {

// Fewer trials than this at a rung are no history.
inline constexpr size_t kMobsterHistoryMin = 20;

struct MobsterOptions {
  // The part of the trials that are Sobol points whatever is known. With n trials trained to their
  // ends it is even_weight / (even_weight + n), if that is more.
  double random_fraction = 0.2;
  double even_weight = 8;
  // Scrambled Sobol points before the model, counted by values at one rung; 0: one per axis, at
  // least 6 and at most 50.
  size_t startup_trials = 0;
  // A rung with fewer values is not looked at.
  size_t rows_min = 3;
  // The process sees at most this many values of a rung: half of them the best ones, the others
  // spread evenly by rank.
  size_t history_max = 150;
  // The process may scale values so that the best ones differ clearly beside much worse ones. Such
  // scales are for searches most of whose trials are bad, for example because training diverges.
  bool stretches_best = true;
};

struct MobsterAnswer {
  Point point;  // Snapped: discrete coordinates are centres of cells.
  // The rung at which improvement is expected; nullopt: a Sobol point.
  std::optional<double> milestone;
  bool repeated = false;  // Every configuration has been tried, and this is one of them.
  std::optional<ModelBelief> belief = {};  // Of values at `milestone`; nullopt for a Sobol point.
};

class Mobster {
 public:
  // `encoding` outlives it, and has at most kGpAxesMax axes.
  Mobster(const Encoding& encoding, uint64_t seed, const MobsterOptions& options = {});

  // The point of trial `number`, which `seen` does not hold. nullopt: given up.
  std::optional<MobsterAnswer> Suggest(const Observations& seen, uint64_t number,
                                       const GiveUp& give_up = {});

 private:
  // The trials with a value at a rung, or a failure, by number.
  struct Level {
    double milestone = 0;
    std::vector<FinishedTrial> trials;
  };

  // The rungs with enough values, the lowest first. Empty: there is no model.
  std::vector<Level> LevelsOf(const TrialsByRung& rungs) const;
  bool IsEven(const TrialsByRung& rungs, uint64_t number) const;
  // The data of at most `most` of the first `count` trials. A failure counts as the worst value.
  GaussianData DataOf(const Level& level, size_t count, size_t most) const;
  // False: given up.
  bool Learn(const std::vector<Level>& levels, const GiveUp& give_up);
  // nullopt: given up. Empty: the model has no answer.
  std::optional<Point> Improvement(const Observations& seen, const std::vector<Level>& levels,
                                   const Taken& taken, Rng& rng, const GiveUp& give_up);

  // Predicts, with the process of the last Improvement, the values of the best trial of the highest
  // rung and of `point`, which trial `number` gets.
  ModelBelief BeliefAt(const Level& highest, const Point& point, uint64_t number) const;

  const Encoding& encoding_;
  const uint64_t seed_;
  const MobsterOptions options_;

  // The data that the parameters were fitted to, one item for each rung; the scale of the values;
  // and the fitted processes.
  std::vector<GaussianData> learned_from_;
  double log_scale_ = 0;
  std::vector<GaussianProcess> learned_;
  double milestone_ = 0;        // Of the last Improvement,
  RungProcess process_;         // its process,
  std::vector<double> values_;  // and the values of all rungs that this was given.
};

}  // namespace rt
