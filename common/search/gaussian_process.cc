#include "common/search/gaussian_process.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"
#include "common/search/minimise.h"
#include "common/search/triangular.h"

namespace rt {
namespace {

// A normal distribution of a logarithm, and its bounds.
struct LogPrior {
  double mean, deviation, lower, upper;
};

constexpr double kLn005 = -5.298317366548036;   // ln 0.005, the least length.
constexpr double kLn100 = 4.605170185988092;    // ln 100, the largest.
constexpr double kLn1e8 = -18.420680743952367;  // ln 1e-8, the least noise.
constexpr LogPrior kVariance = {0, 1.5, -7, 7};
constexpr LogPrior kNoise = {-11.512925464970229, 2, kLn1e8, 0};  // The mean is ln 1e-5.
constexpr LogPrior kTrend = {0, 2, -9, 6};
// Of the mean of all lengths' logarithms, and of what each differs from it. One prior for all axes
// keeps a length from being lost at the edge of its range.
constexpr double kMeanLengthDeviation = 1, kLengthDeviation = 0.4;
constexpr double kConstantVariance = 1;
constexpr double kLnHalf = -0.6931471805599453;
constexpr double kHalfLn2Pi = 0.9189385332046727;
constexpr double kImpossible = 1e10;  // The loss where the covariance cannot be factorised.
constexpr double kVarianceMin = 1e-14;

// The prior of parameter `index` beyond the lengths.
const LogPrior& PriorOf(size_t beyond) {
  return beyond == 0 ? kVariance : beyond == 1 ? kNoise : kTrend;
}

double MeanLength(size_t axes) { return kLnHalf + 0.5 * Log(static_cast<double>(axes)); }

double Square(double x) { return x * x; }

Box BoundsOf(size_t axes) {
  Box box{std::vector<double>(axes, kLn005), std::vector<double>(axes, kLn100)};
  for (size_t i = 0; i < 5; ++i) {
    box.lower.push_back(PriorOf(i).lower);
    box.upper.push_back(PriorOf(i).upper);
  }
  return box;
}

}  // namespace

struct GaussianProcess::Scales {
  Scales(const std::vector<double>& parameters, size_t axes) {
    for (size_t k = 0; k < axes; ++k) inverse_squares.push_back(Exp(-2 * parameters[k]));
    variance = Exp(parameters[axes]);
    noise = Exp(parameters[axes + 1]);
    linear = Exp(parameters[axes + 2]);
    square = Exp(parameters[axes + 3]);
    product = Exp(parameters[axes + 4]);
  }

  std::vector<double> inverse_squares;  // Of the lengths.
  double variance, noise, linear, square, product;
};

// The posterior density as a function of the parameters. What does not depend on them, the inner
// products of the trend's terms, is computed once. Matrices are those of triangular.h.
class GaussianProcess::Posterior {
 public:
  explicit Posterior(const GaussianData& data)
      : data_(data), n_(data.count()), axes_(data.axes), linear_(n_ * n_, 0), square_(n_ * n_, 0),
        product_(n_ * n_, 0) {
    for (size_t k = 0; k < axes_; ++k) {
      const double* x = &data.coordinates[k * n_];
      for (size_t j = 0; j < n_; ++j) {
        const double zj = 2 * x[j] - 1, qj = zj * zj - 1.0 / 3;
        for (size_t i = j; i < n_; ++i) {
          const double zi = 2 * x[i] - 1, both = zi * zj;
          linear_[j * n_ + i] += both;
          square_[j * n_ + i] += (zi * zi - 1.0 / 3) * qj;
          product_[j * n_ + i] += both * both;
        }
      }
    }
    for (size_t i = 0; i < n_ * n_; ++i)
      product_[i] = 0.5 * (linear_[i] * linear_[i] - product_[i]);
  }

  // The covariance of the data; `kernel` receives the part of the squared exponential.
  std::vector<double> Covariance(const Scales& scales, std::vector<double>& kernel) const {
    std::vector<double> covariance(n_ * n_);
    kernel.assign(n_ * n_, 0);
    for (size_t j = 0; j < n_; ++j) {
      double* column = &kernel[j * n_];
      for (size_t k = 0; k < axes_; ++k) {
        const double* x = &data_.coordinates[k * n_];
        const double at = x[j], scale = scales.inverse_squares[k];
        for (size_t i = j; i < n_; ++i) column[i] += (x[i] - at) * (x[i] - at) * scale;
      }
      for (size_t i = j; i < n_; ++i) column[i] = scales.variance * Exp(-0.5 * column[i]);
      for (size_t i = j; i < n_; ++i) {
        const size_t at = j * n_ + i;
        covariance[at] = column[i] + kConstantVariance + scales.linear * linear_[at] +
                         scales.square * square_[at] + scales.product * product_[at];
      }
      covariance[j * n_ + j] += scales.noise + 1e-10 * (scales.variance + 1);
    }
    return covariance;
  }

  // Minus the logarithm of the density, and its gradient.
  double Loss(const std::vector<double>& parameters, std::vector<double>& gradient) const {
    const Scales scales(parameters, axes_);
    std::vector<double> kernel;
    std::vector<double> factor = Covariance(scales, kernel);
    gradient.assign(parameters.size(), 0);
    if (!FactoriseLower(factor, n_)) return kImpossible;
    double loss = kHalfLn2Pi * static_cast<double>(n_);
    for (size_t i = 0; i < n_; ++i) loss += Log(factor[i * n_ + i]);
    const std::vector<double> inverse = InverseOfLower(factor, n_);
    const std::vector<double> whitened = LowerTimes(inverse, data_.values);
    loss += 0.5 * Dot(whitened.data(), whitened.data(), n_);
    AddLikelihoodGradient(scales, kernel, TransposedTimes(inverse, n_),
                          TransposedTimes(inverse, whitened), gradient);
    return loss + AddPrior(parameters, gradient);
  }

 private:
  // Of each parameter p: the sum over pairs of (w_i w_j - C^-1_ij) dC_ij/dp, halved.
  void AddLikelihoodGradient(const Scales& scales, const std::vector<double>& kernel,
                             const std::vector<double>& inverse, const std::vector<double>& weights,
                             std::vector<double>& gradient) const {
    std::vector<double> pull(n_), of_kernel(n_), squares(n_);
    double* beyond = &gradient[axes_];
    for (size_t j = 0; j < n_; ++j) {
      const size_t at = j * n_;
      for (size_t i = j; i < n_; ++i) pull[i] = weights[i] * weights[j] - inverse[at + i];
      pull[j] *= 0.5;
      for (size_t i = j; i < n_; ++i) {
        of_kernel[i] = pull[i] * kernel[at + i];
        beyond[0] -= of_kernel[i];
      }
      beyond[1] -= pull[j] * scales.noise;
      const size_t rest = n_ - j;
      beyond[2] -= scales.linear * Dot(&pull[j], &linear_[at + j], rest);
      beyond[3] -= scales.square * Dot(&pull[j], &square_[at + j], rest);
      beyond[4] -= scales.product * Dot(&pull[j], &product_[at + j], rest);
      for (size_t k = 0; k < axes_; ++k) {
        const double* x = &data_.coordinates[k * n_];
        for (size_t i = j; i < n_; ++i) squares[i] = (x[i] - x[j]) * (x[i] - x[j]);
        gradient[k] -= scales.inverse_squares[k] * Dot(&of_kernel[j], &squares[j], rest);
      }
    }
  }

  double AddPrior(const std::vector<double>& parameters, std::vector<double>& gradient) const {
    const double axes = static_cast<double>(axes_);
    double mean = 0, loss = 0;
    for (size_t k = 0; k < axes_; ++k) mean += parameters[k] / axes;
    const double z = (mean - MeanLength(axes_)) / kMeanLengthDeviation;
    loss += 0.5 * z * z;
    for (size_t k = 0; k < axes_; ++k) {
      const double own = (parameters[k] - mean) / kLengthDeviation;
      loss += 0.5 * own * own;
      gradient[k] += z / kMeanLengthDeviation / axes + own / kLengthDeviation;
    }
    for (size_t i = 0; axes_ + i < parameters.size(); ++i) {
      const LogPrior& prior = PriorOf(i);
      const double distance = (parameters[axes_ + i] - prior.mean) / prior.deviation;
      loss += 0.5 * distance * distance;
      gradient[axes_ + i] += distance / prior.deviation;
    }
    return loss;
  }

  const GaussianData& data_;
  const size_t n_, axes_;
  std::vector<double> linear_, square_, product_;
};

GaussianProcess::GaussianProcess(size_t axes) : axes_(axes) { Reset(); }

void GaussianProcess::Reset() {
  const double length = kLnHalf + 0.25 * Log(static_cast<double>(axes_));
  parameters_.assign(axes_, std::min(length, MeanLength(axes_)));
  for (size_t i = 0; i < 5; ++i) parameters_.push_back(PriorOf(i).mean);
}

double GaussianProcess::Fit(const GaussianData& data, int steps, const GiveUp& give_up) {
  const Posterior posterior(data);
  const SmoothFunction loss = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    gradient.assign(x.size(), 0);
    return give_up && give_up() ? kImpossible : posterior.Loss(x, gradient);
  };
  return Minimise(loss, BoundsOf(axes_), {.iterations = steps}, parameters_);
}

bool GaussianProcess::Condition(GaussianData data) {
  data_ = std::move(data);
  std::vector<double> kernel;
  std::vector<double> factor = Posterior(data_).Covariance(Scales(parameters_, axes_), kernel);
  if (!FactoriseLower(factor, data_.count())) return false;
  inverse_ = InverseOfLower(factor, data_.count());
  weights_ = TransposedTimes(inverse_, LowerTimes(inverse_, data_.values));
  return true;
}

std::vector<double> GaussianProcess::CovarianceWith(const std::vector<double>& x) const {
  const size_t n = data_.count();
  const Scales scales(parameters_, axes_);
  std::vector<double> distance(n, 0), linear(n, 0), square(n, 0), product(n, 0);
  for (size_t k = 0; k < axes_; ++k) {
    const double* at = &data_.coordinates[k * n];
    const double own = x[k], scale = scales.inverse_squares[k];
    const double z = 2 * own - 1, q = z * z - 1.0 / 3;
    for (size_t i = 0; i < n; ++i) {
      const double zi = 2 * at[i] - 1, both = zi * z;
      distance[i] += (at[i] - own) * (at[i] - own) * scale;
      linear[i] += both;
      square[i] += (zi * zi - 1.0 / 3) * q;
      product[i] += both * both;
    }
  }
  for (size_t i = 0; i < n; ++i)
    distance[i] = scales.variance * Exp(-0.5 * distance[i]) + kConstantVariance +
                  scales.linear * linear[i] + scales.square * square[i] +
                  scales.product * 0.5 * (linear[i] * linear[i] - product[i]);
  return distance;
}

double GaussianProcess::MeanAt(const std::vector<double>& x) const {
  const std::vector<double> covariance = CovarianceWith(x);
  return Dot(covariance.data(), weights_.data(), covariance.size());
}

GaussianProcess::Prediction GaussianProcess::At(const std::vector<double>& x) const {
  const Scales scales(parameters_, axes_);
  double linear = 0, square = 0, product = 0;
  for (const double each : x) {
    const double z = Square(2 * each - 1);
    linear += z;
    square += Square(z - 1.0 / 3);
    product += z * z;
  }
  const double prior = scales.variance + kConstantVariance + scales.linear * linear +
                       scales.square * square + scales.product * 0.5 * (linear * linear - product);
  const std::vector<double> covariance = CovarianceWith(x);
  const std::vector<double> known = LowerTimes(inverse_, covariance);
  const size_t n = covariance.size();
  return {Dot(covariance.data(), weights_.data(), n),
          std::max(prior - Dot(known.data(), known.data(), n), kVarianceMin)};
}

double GaussianProcess::MeanAtData(size_t i) const {
  return data_.values[i] - weights_[i] * Exp(parameters_[axes_ + 1]);
}

}  // namespace rt
