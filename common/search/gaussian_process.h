// A Gaussian process on a few hundred points near one place: a squared-exponential kernel with a
// length for each axis, on top of a quadratic trend whose coefficients are random too. Its
// parameters are those with the highest posterior density.
//
// Source: Rasmussen and Williams, "Gaussian processes for machine learning", 2006, chapters 2 and
// 5; the trend and the priors are of our own research (docs/search-quality.md has the figures).
// Coordinates are about [0, 1], values about standardised. Cost: O(points^3) for a fit's step, and
// O(points^2) for a prediction. Pure; equal to the bit on every machine; one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "common/search/model.h"

namespace rt {

struct GaussianData {
  size_t axes = 0;
  std::vector<double> coordinates;  // Axis k of point i is at [k * count() + i].
  std::vector<double> values;

  size_t count() const { return values.size(); }
};

class GaussianProcess {
 public:
  struct Prediction {
    double mean = 0, variance = 0;
  };

  explicit GaussianProcess(size_t axes);

  // The parameters before any fit.
  void Reset();
  // At most so many steps from the present parameters; returns the negative logarithm of the
  // posterior density. When `give_up` says so, it ends early with parameters of no use.
  double Fit(const GaussianData& data, int steps, const GiveUp& give_up);
  // What follows predicts from these data, with the present parameters. False: it cannot.
  bool Condition(GaussianData data);

  double MeanAt(const std::vector<double>& x) const;
  Prediction At(const std::vector<double>& x) const;
  // The posterior mean of the process, without noise, at point i of the data.
  double MeanAtData(size_t i) const;
  const GaussianData& data() const { return data_; }

 private:
  struct Scales;  // The parameters, out of their logarithms.
  class Posterior;

  std::vector<double> CovarianceWith(const std::vector<double>& x) const;

  size_t axes_;
  // Logarithms: of the length of each axis, the process's variance, the noise's, and the variances
  // of the linear, the square and the product terms of the trend.
  std::vector<double> parameters_;
  GaussianData data_;
  std::vector<double> inverse_;  // Of the covariance's factor.
  std::vector<double> weights_;  // The covariance's inverse times the values.
};

}  // namespace rt
