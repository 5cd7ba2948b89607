// The normal distribution of an evolution strategy, which moves towards the points that rank best
// and takes the shape of the steps that led to them: CMA-ES with positive weights.
//
// Sources: Hansen, "The CMA evolution strategy: a tutorial", arXiv 1604.00772, 2016 (the update and
// its constants); Hansen, "Injecting external solutions into CMA-ES", arXiv 1110.4181, 2011 (steps
// of points that it did not draw are cut); Hamano et al., "CMA-ES with margin", 2022 (an axis with
// cells keeps a chance to leave its cell).
//
// Points are in the unit cube. Pure; equal to the bit on every machine; one thread at a time. Cost
// of an update: O(axes^3), of a draw O(axes^2).
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/rng.h"
#include "common/search/encoding.h"

namespace rt {

class Evolution {
 public:
  explicit Evolution(size_t axes);

  // Begins at `mean` with the standard deviation `sigma` on each axis. Updates take `population`
  // ranked points, at least 4.
  void Start(const Point& mean, double sigma, size_t population);
  size_t population() const { return population_; }
  const Point& mean() const { return mean_; }

  // A point of the cube.
  Point Draw(Rng& rng) const;
  // The distance from the mean along the axes of the distribution, in its standard deviations.
  std::vector<double> Whiten(const Point& point) const;
  // The largest standard deviation along any direction.
  double Reach() const;

  // Moves by the ranking of population() points, the best first.
  void Update(const std::vector<Point>& ranked);
  // Keeps the standard deviation on each axis at least this large; 0 says nothing of the axis.
  void KeepDeviations(const std::vector<double>& least);

 private:
  void SetPopulation(size_t population);
  void AdaptPaths(const std::vector<double>& step);
  void AdaptCovariance(const std::vector<std::vector<double>>& steps);
  void Decompose();

  size_t axes_;
  size_t population_ = 0;
  // Hansen's constants, and the expected length of a standard normal vector.
  std::vector<double> weights_;
  double effective_ = 0, sigma_rate_ = 0, sigma_damping_ = 0, path_rate_ = 0, rank_one_ = 0,
         rank_mu_ = 0, expected_length_ = 0;

  Point mean_;
  double sigma_ = 0;
  size_t generation_ = 0;
  bool is_stalled_ = false;  // The path is so long that the covariance does not follow it.
  std::vector<double> sigma_path_, path_;
  std::vector<double> covariance_;  // By columns, as `basis_`.
  std::vector<double> basis_;       // Its eigenvectors,
  std::vector<double> scales_;      // and the square roots of its eigenvalues.
};

}  // namespace rt
