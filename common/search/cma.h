// An evolution strategy that learns from every trial: CMA-ES, whose generations are ranked by a
// model of the values, so that a few trials are enough for an update. Best where parameters are
// real numbers, and for many trials.
//
// Sources: evolution.h and surrogate.h name those of the distribution and of the model; ranking by
// a Gaussian process: Bajer et al., "Gaussian process surrogate models for the CMA evolution
// strategy", 2019; how many trials a generation takes, by how well the model ranks, and the
// restarts: our own research (docs/search-quality.md has the figures).
//
// Axes with steps take part, and keep a chance to leave their cell. A categorical axis has no
// distance: its coordinate is proposed by TPE (tpe.h).
//
// An object is a cache: what Suggest returns is a function of its arguments, and results that
// continue those of the call before cost only what is new. Results are taken in the order in which
// the trials ended. Equal to the bit on every machine; one thread at a time. Memory: O(trials *
// axes + axes^2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/evolution.h"
#include "common/search/model.h"
#include "common/search/observations.h"
#include "common/search/surrogate.h"
#include "common/search/taken.h"

namespace rt {

// More numeric axes than this are not searched: an update costs O(axes^3).
inline constexpr size_t kCmaAxesMax = 100;
// A generation of fewer points has no better half to learn from.
inline constexpr size_t kCmaPopulationMin = 4;

struct CmaOptions {
  // Scrambled Sobol points before the strategy; 0: one per axis, at least 6 and at most 50.
  size_t startup_trials = 0;
  // The standard deviation at the start, in units of the cube's edge.
  double sigma = 0.3;
  // The points that a generation ranks, at least kCmaPopulationMin; 0: 4 * (4 + 3 ln(axes)).
  size_t population = 0;
  // It begins elsewhere after so many trials without a better one; 0: 40, and 10 more per axis.
  size_t stall_trials = 0;
  // After so many results generations are ranked by their values alone, and a generation is a
  // population of trials: the model's time is worth less than that of more trials then.
  size_t model_trials = 2000;
  // Whether the first trial is the middle of the numeric axes. Since version 2.
  bool begins_in_middle = false;
};

struct CmaAnswer {
  Point point;             // Snapped: discrete coordinates are centres of cells.
  bool from_model = true;  // False: a Sobol point.
  bool repeated = false;   // Every configuration has been tried, and this is one of them.
};

class CmaEs {
 public:
  // `encoding` outlives it, and has 1 to kCmaAxesMax axes that are not categorical, or no axes.
  CmaEs(const Encoding& encoding, uint64_t seed, const CmaOptions& options = {});

  // The point of trial `number`, which `seen` does not hold. nullopt: given up; the next call
  // continues where this one was.
  std::optional<CmaAnswer> Suggest(const Observations& seen, uint64_t number,
                                   const GiveUp& give_up = {});

 private:
  // Takes the results that are new. False: given up.
  bool CatchUp(const Observations& seen, const GiveUp& give_up);
  bool Continues(const std::vector<const FinishedTrial*>& ordered) const;
  void Forget();
  void Take(const FinishedTrial& trial);
  void TryToStart();
  bool FitSurrogate(const GiveUp& give_up);
  size_t GenerationSize() const;
  bool HasModel() const;
  bool EndGeneration(const GiveUp& give_up);
  void AdaptGenerationSize();
  std::vector<Point> Ranked() const;
  void RestartElsewhere();
  Point NumericOf(const Point& point) const;
  Point Snapped(Point numeric) const;
  std::vector<double> LeastDeviations() const;
  bool BeginsInMiddle() const;
  size_t StartupTrials() const;
  Point StartupPoint(const Observations& seen, uint64_t number) const;
  bool HasMiddle(const Observations& seen) const;
  Point Best(const Observations& seen, const Point& base, const Taken& taken, Rng& rng) const;

  const Encoding& encoding_;
  const uint64_t seed_;
  const CmaOptions options_;
  std::vector<size_t> numeric_;  // The axes that are not categorical.
  const size_t usual_population_;

  // What follows from the results that were taken.
  std::vector<EvaluatedPoint> evaluated_;  // In their order,
  std::vector<uint64_t> numbers_;          // and their trials.
  Evolution evolution_;
  Surrogate surrogate_;
  bool has_surrogate_ = false;  // It was fitted,
  size_t surrogate_at_ = 0;     // and has seen so many results.
  bool is_started_ = false;
  std::vector<size_t> generation_;  // The results since the last update.
  uint64_t generations_ = 0, restarts_ = 0;
  double generation_size_ = 0;
  double best_ = 0;                                    // Since the last start.
  size_t since_better_ = 0;                            // Results since then.
  std::deque<std::pair<double, double>> predictions_;  // What the model expected, and what came.
};

}  // namespace rt
