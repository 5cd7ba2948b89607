// A Gaussian process on a few hundred points: a stationary kernel with a length for each axis, on
// top of a quadratic trend whose coefficients are random too. Its parameters are those with the
// highest posterior density.
//
// Source: Rasmussen and Williams, "Gaussian processes for machine learning", 2006, chapters 2, 4
// and 5; the trend and the priors are of our own research (docs/search-quality.md has the figures).
// Coordinates are about [0, 1], values about standardised. Cost: O(points^3) for a fit's step, and
// O(points^2) for a prediction. Pure; equal to the bit on every machine; one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "common/search/model.h"
#include "common/search/predictor.h"

namespace rt {

struct GaussianData {
  size_t axes = 0;
  std::vector<double> coordinates;  // Axis k of point i is at [k * count() + i].
  std::vector<double> values;

  size_t count() const { return values.size(); }
};

// What a process assumes before it knows values. Logarithms are natural.
struct GaussianForm {
  enum class Kernel { kSquaredExponential, kMatern };  // Matern with five halves.

  size_t axes = 0;
  // Normal distributions: of the mean of the lengths' logarithms (its deviation is 1), of what each
  // length's logarithm differs from that mean (around 0), and of the noise variance's logarithm.
  double length_mean = 0, length_deviation = 0, noise_mean = 0;
  // Whether the trend has products of two axes, besides the linear and the square terms.
  bool has_products = false;
  // Axes whose points are equal or not, with no distance and no trend; empty: none.
  std::vector<bool> is_category = {};
  Kernel kernel = Kernel::kSquaredExponential;
  // The probability that the values are noisy: the weight of a second normal distribution of the
  // noise variance's logarithm, whose mean is 5 % of the values' variance. 0: there is none.
  double noise_chance = 0;
};

class GaussianProcess final : public Predictor {
 public:
  using Prediction = rt::Prediction;
  using Slopes = PredictionSlopes;

  explicit GaussianProcess(GaussianForm form);

  // The parameters before any fit; those of noisy values, for a form that has a chance of noise.
  void Reset();
  void ResetNoisy();
  void SetKernel(GaussianForm::Kernel kernel) { form_.kernel = kernel; }
  GaussianForm::Kernel kernel() const { return form_.kernel; }
  // The logarithms of the lengths, one per axis.
  std::vector<double> LogLengths() const override;
  void SetLogLengths(const std::vector<double>& lengths);
  // At most so many steps from the present parameters; returns the negative logarithm of the
  // posterior density. When `give_up` says so, it ends early with parameters of no use.
  double Fit(const GaussianData& data, int steps, const GiveUp& give_up);
  // What follows predicts from these data, with the present parameters. False: it cannot.
  bool Condition(GaussianData data);

  double MeanAt(const std::vector<double>& x) const;
  Prediction At(const std::vector<double>& x) const override;
  // Also the slopes, for a form without products.
  Prediction At(const std::vector<double>& x, Slopes& slopes) const override;
  // The posterior mean of the process, without noise, at point i of the data.
  double MeanAtData(size_t i) const;
  const GaussianData& data() const { return data_; }

 private:
  struct Scales;  // The parameters, out of their logarithms.
  class Posterior;

  // With each point of the data; `slopes` receives -2 times the kernel's derivatives with respect
  // to squared distances.
  std::vector<double> CovarianceWith(const std::vector<double>& x,
                                     std::vector<double>* slopes) const;
  double PriorVariance(const std::vector<double>& x) const;

  GaussianForm form_;
  // Logarithms: of the length of each axis, the process's variance, the noise's, and the variances
  // of the trend's linear and square terms, and of its products if it has them.
  std::vector<double> parameters_;
  GaussianData data_;
  std::vector<double> inverse_;  // Of the covariance's factor.
  std::vector<double> weights_;  // The covariance's inverse times the values.
};

}  // namespace rt
