#include "common/search/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
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
constexpr LogPrior kNoise = {0, 2, kLn1e8, 0};  // The mean is that of the form.
constexpr LogPrior kClearNoise = {-3, 1.5, kLn1e8, 0};
constexpr LogPrior kTrend = {0, 2, -9, 6};
// Of the mean of all lengths' logarithms. One prior for all axes keeps a length from being lost at
// the edge of its range.
constexpr double kMeanLengthDeviation = 1;
constexpr double kConstantVariance = 1;
constexpr double kLnHalf = -0.6931471805599453;
constexpr double kHalfLn2Pi = 0.9189385332046727;
constexpr double kImpossible = 1e10;  // The loss where the covariance cannot be factorised.
constexpr double kVarianceMin = 1e-14;

size_t TrendTerms(const GaussianForm& form) { return form.has_products ? 3 : 2; }

// The prior of a parameter beyond the lengths: the variance, the noise, or a term of the trend.
LogPrior PriorOf(const GaussianForm& form, size_t beyond) {
  if (beyond == 0) return kVariance;
  LogPrior prior = beyond == 1 ? kNoise : kTrend;
  if (beyond == 1) prior.mean = form.noise_mean;
  return prior;
}

Box BoundsOf(const GaussianForm& form) {
  Box box{std::vector<double>(form.axes, kLn005), std::vector<double>(form.axes, kLn100)};
  for (size_t i = 0; i < 2 + TrendTerms(form); ++i) {
    box.lower.push_back(PriorOf(form, i).lower);
    box.upper.push_back(PriorOf(form, i).upper);
  }
  return box;
}

double Square(double x) { return x * x; }

// Minus the logarithm of a prior's density, but for a constant, and its slope.
struct PriorLoss {
  double loss, slope;
};

PriorLoss LossOf(const LogPrior& prior, double x) {
  const double distance = (x - prior.mean) / prior.deviation;
  return {0.5 * distance * distance, distance / prior.deviation};
}

// The same of the noise, whose prior is a mixture of two normal distributions.
PriorLoss NoiseLoss(const GaussianForm& form, double x) {
  const LogPrior usual = PriorOf(form, 1);
  const PriorLoss of_usual = LossOf(usual, x);
  if (form.noise_chance <= 0) return of_usual;
  const PriorLoss of_clear = LossOf(kClearNoise, x);
  const double usually = (1 - form.noise_chance) * Exp(-of_usual.loss);
  const double clearly =
      form.noise_chance * usual.deviation / kClearNoise.deviation * Exp(-of_clear.loss);
  const double density = usually + clearly;
  return {-Log(density), (usually * of_usual.slope + clearly * of_clear.slope) / density};
}

bool IsCategory(const GaussianForm& form, size_t axis) {
  return !form.is_category.empty() && form.is_category[axis];
}

// Adds the squared distances of coordinates `from` to `to` from `at`, times `scale`.
void AddDistances(const double* x, double at, double scale, bool is_category, size_t from,
                  size_t to, double* sums) {
  if (is_category)
    for (size_t i = from; i < to; ++i) sums[i] += x[i] == at ? 0 : scale;
  else
    for (size_t i = from; i < to; ++i) sums[i] += (x[i] - at) * (x[i] - at) * scale;
}

// Replaces squared distances by values of the kernel; `slopes` receives -2 times the derivatives.
void ApplyKernel(GaussianForm::Kernel kernel, double variance, size_t from, size_t to,
                 double* values, double* slopes) {
  if (kernel == GaussianForm::Kernel::kSquaredExponential) {
    for (size_t i = from; i < to; ++i) slopes[i] = values[i] = variance * Exp(-0.5 * values[i]);
    return;
  }
  for (size_t i = from; i < to; ++i) {
    const double root = std::sqrt(5 * values[i]), decay = variance * Exp(-root);
    slopes[i] = 5.0 / 3 * (1 + root) * decay;
    values[i] = (1 + root + root * root / 3) * decay;
  }
}

}  // namespace

struct GaussianProcess::Scales {
  Scales(const std::vector<double>& parameters, const GaussianForm& form) {
    const size_t axes = form.axes;
    for (size_t k = 0; k < axes; ++k) inverse_squares.push_back(Exp(-2 * parameters[k]));
    variance = Exp(parameters[axes]);
    noise = Exp(parameters[axes + 1]);
    linear = Exp(parameters[axes + 2]);
    square = Exp(parameters[axes + 3]);
    product = form.has_products ? Exp(parameters[axes + 4]) : 0;
  }

  std::vector<double> inverse_squares;  // Of the lengths.
  double variance, noise, linear, square, product;
};

// The posterior density as a function of the parameters. What does not depend on them, the inner
// products of the trend's terms, is computed once. Matrices are those of triangular.h.
class GaussianProcess::Posterior {
 public:
  Posterior(const GaussianForm& form, const GaussianData& data)
      : form_(form), data_(data), n_(data.count()), axes_(data.axes), linear_(n_ * n_, 0),
        square_(n_ * n_, 0), product_(form.has_products ? n_ * n_ : 0, 0) {
    for (size_t k = 0; k < axes_; ++k)
      if (!IsCategory(form_, k)) AddTrend(&data_.coordinates[k * n_]);
    for (size_t i = 0; i < product_.size(); ++i)
      product_[i] = 0.5 * (linear_[i] * linear_[i] - product_[i]);
  }

  // The covariance of the data; `kernel` receives the part of the kernel, and `slopes` -2 times its
  // derivatives with respect to squared distances.
  std::vector<double> Covariance(const Scales& scales, std::vector<double>& kernel,
                                 std::vector<double>& slopes) const {
    std::vector<double> covariance(n_ * n_);
    kernel.assign(n_ * n_, 0);
    slopes.resize(n_ * n_);
    for (size_t j = 0; j < n_; ++j) {
      double* column = &kernel[j * n_];
      for (size_t k = 0; k < axes_; ++k) {
        const double* x = &data_.coordinates[k * n_];
        AddDistances(x, x[j], scales.inverse_squares[k], IsCategory(form_, k), j, n_, column);
      }
      ApplyKernel(form_.kernel, scales.variance, j, n_, column, &slopes[j * n_]);
      for (size_t i = j; i < n_; ++i) {
        const size_t at = j * n_ + i;
        covariance[at] = column[i] + kConstantVariance + scales.linear * linear_[at] +
                         scales.square * square_[at];
      }
      if (form_.has_products)
        for (size_t i = j; i < n_; ++i)
          covariance[j * n_ + i] += scales.product * product_[j * n_ + i];
      covariance[j * n_ + j] += scales.noise + 1e-10 * (scales.variance + 1);
    }
    return covariance;
  }

  // Minus the logarithm of the density, and its gradient.
  double Loss(const std::vector<double>& parameters, std::vector<double>& gradient) const {
    const Scales scales(parameters, form_);
    std::vector<double> kernel, slopes;
    std::vector<double> factor = Covariance(scales, kernel, slopes);
    gradient.assign(parameters.size(), 0);
    if (!FactoriseLower(factor, n_)) return kImpossible;
    double loss = kHalfLn2Pi * static_cast<double>(n_);
    for (size_t i = 0; i < n_; ++i) loss += Log(factor[i * n_ + i]);
    const std::vector<double> inverse = InverseOfLower(factor, n_);
    const std::vector<double> whitened = LowerTimes(inverse, data_.values);
    loss += 0.5 * Dot(whitened.data(), whitened.data(), n_);
    const std::vector<double> of_covariance = TransposedTimes(inverse, n_);
    const std::vector<double> weights = TransposedTimes(inverse, whitened);
    Column column{std::vector<double>(n_), std::vector<double>(n_), std::vector<double>(n_)};
    for (size_t j = 0; j < n_; ++j) {
      const size_t at = j * n_;
      for (size_t i = j; i < n_; ++i)
        column.pull[i] = weights[i] * weights[j] - of_covariance[at + i];
      column.pull[j] *= 0.5;
      AddLikelihoodGradient(scales, j, &kernel[at], &slopes[at], column, gradient);
    }
    return loss + AddPrior(parameters, gradient);
  }

 private:
  // The trend's terms of an axis.
  void AddTrend(const double* x) {
    for (size_t j = 0; j < n_; ++j) {
      const double zj = 2 * x[j] - 1, qj = zj * zj - 1.0 / 3;
      double *linear = &linear_[j * n_], *square = &square_[j * n_];
      for (size_t i = j; i < n_; ++i) {
        const double zi = 2 * x[i] - 1;
        linear[i] += zi * zj;
        square[i] += (zi * zi - 1.0 / 3) * qj;
      }
      if (!form_.has_products) continue;
      for (size_t i = j; i < n_; ++i) {
        const double both = (2 * x[i] - 1) * zj;
        product_[j * n_ + i] += both * both;
      }
    }
  }

  // Of one column of pairs: `pull` has w_i w_j - C^-1_ij. The others are working memory.
  struct Column {
    std::vector<double> pull, pulled, squares;
  };

  // Of each parameter p: the sum over the pairs of column j of pull_i dC_ij/dp.
  void AddLikelihoodGradient(const Scales& scales, size_t j, const double* kernel,
                             const double* slopes, Column& column,
                             std::vector<double>& gradient) const {
    const size_t at = j * n_ + j, rest = n_ - j;
    double* beyond = &gradient[axes_];
    auto& [pull, pulled, squares] = column;
    for (size_t i = j; i < n_; ++i) beyond[0] -= pull[i] * kernel[i];
    beyond[1] -= pull[j] * scales.noise;
    beyond[2] -= scales.linear * Dot(&pull[j], &linear_[at], rest);
    beyond[3] -= scales.square * Dot(&pull[j], &square_[at], rest);
    if (form_.has_products) beyond[4] -= scales.product * Dot(&pull[j], &product_[at], rest);
    for (size_t i = j; i < n_; ++i) pulled[i] = pull[i] * slopes[i];
    for (size_t k = 0; k < axes_; ++k) {
      const double* x = &data_.coordinates[k * n_];
      std::fill(squares.begin() + static_cast<std::ptrdiff_t>(j), squares.end(), 0);
      AddDistances(x, x[j], 1, IsCategory(form_, k), j, n_, squares.data());
      gradient[k] -= scales.inverse_squares[k] * Dot(&pulled[j], &squares[j], rest);
    }
  }

  double AddPrior(const std::vector<double>& parameters, std::vector<double>& gradient) const {
    const double axes = static_cast<double>(axes_);
    double mean = 0, loss = 0;
    for (size_t k = 0; k < axes_; ++k) mean += parameters[k] / axes;
    const double z = (mean - form_.length_mean) / kMeanLengthDeviation;
    loss += 0.5 * z * z;
    for (size_t k = 0; k < axes_; ++k) {
      const double own = (parameters[k] - mean) / form_.length_deviation;
      loss += 0.5 * own * own;
      gradient[k] += z / kMeanLengthDeviation / axes + own / form_.length_deviation;
    }
    for (size_t i = 0; axes_ + i < parameters.size(); ++i) {
      const double x = parameters[axes_ + i];
      const PriorLoss prior = i == 1 ? NoiseLoss(form_, x) : LossOf(PriorOf(form_, i), x);
      loss += prior.loss;
      gradient[axes_ + i] += prior.slope;
    }
    return loss;
  }

  const GaussianForm& form_;
  const GaussianData& data_;
  const size_t n_, axes_;
  std::vector<double> linear_, square_, product_;
};

GaussianProcess::GaussianProcess(GaussianForm form) : form_(std::move(form)) { Reset(); }

void GaussianProcess::Reset() {
  const double length = kLnHalf + 0.25 * Log(static_cast<double>(form_.axes));
  parameters_.assign(form_.axes, std::min(length, form_.length_mean));
  for (size_t i = 0; i < 2 + TrendTerms(form_); ++i) parameters_.push_back(PriorOf(form_, i).mean);
}

void GaussianProcess::ResetNoisy() {
  RT_CHECK(form_.noise_chance > 0);
  Reset();
  parameters_[form_.axes + 1] = kClearNoise.mean;
}

std::vector<double> GaussianProcess::LogLengths() const {
  return {parameters_.begin(), parameters_.begin() + static_cast<std::ptrdiff_t>(form_.axes)};
}

void GaussianProcess::SetLogLengths(const std::vector<double>& lengths) {
  RT_CHECK(lengths.size() == form_.axes);
  std::copy(lengths.begin(), lengths.end(), parameters_.begin());
}

double GaussianProcess::Fit(const GaussianData& data, int steps, const GiveUp& give_up) {
  const Posterior posterior(form_, data);
  const SmoothFunction loss = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    gradient.assign(x.size(), 0);
    return give_up && give_up() ? kImpossible : posterior.Loss(x, gradient);
  };
  return Minimise(loss, BoundsOf(form_), {.iterations = steps}, parameters_);
}

bool GaussianProcess::Condition(GaussianData data) {
  data_ = std::move(data);
  std::vector<double> kernel, slopes;
  std::vector<double> factor =
      Posterior(form_, data_).Covariance(Scales(parameters_, form_), kernel, slopes);
  if (!FactoriseLower(factor, data_.count())) return false;
  inverse_ = InverseOfLower(factor, data_.count());
  weights_ = TransposedTimes(inverse_, LowerTimes(inverse_, data_.values));
  return true;
}

std::vector<double> GaussianProcess::CovarianceWith(const std::vector<double>& x,
                                                    std::vector<double>* slopes) const {
  const size_t n = data_.count();
  const Scales scales(parameters_, form_);
  std::vector<double> values(n, 0), own_slopes(n), linear(n, 0), square(n, 0), product(n, 0);
  for (size_t k = 0; k < form_.axes; ++k) {
    const double* at = &data_.coordinates[k * n];
    const bool is_category = IsCategory(form_, k);
    AddDistances(at, x[k], scales.inverse_squares[k], is_category, 0, n, values.data());
    if (is_category) continue;
    const double z = 2 * x[k] - 1, q = z * z - 1.0 / 3;
    for (size_t i = 0; i < n; ++i) {
      const double zi = 2 * at[i] - 1;
      linear[i] += zi * z;
      square[i] += (zi * zi - 1.0 / 3) * q;
    }
    if (!form_.has_products) continue;
    for (size_t i = 0; i < n; ++i) product[i] += Square((2 * at[i] - 1) * z);
  }
  ApplyKernel(form_.kernel, scales.variance, 0, n, values.data(), own_slopes.data());
  for (size_t i = 0; i < n; ++i)
    values[i] =
        values[i] + kConstantVariance + scales.linear * linear[i] + scales.square * square[i];
  if (form_.has_products)
    for (size_t i = 0; i < n; ++i)
      values[i] += scales.product * 0.5 * (linear[i] * linear[i] - product[i]);
  if (slopes != nullptr) *slopes = std::move(own_slopes);
  return values;
}

double GaussianProcess::MeanAt(const std::vector<double>& x) const {
  const std::vector<double> covariance = CovarianceWith(x, nullptr);
  return Dot(covariance.data(), weights_.data(), covariance.size());
}

double GaussianProcess::PriorVariance(const std::vector<double>& x) const {
  const Scales scales(parameters_, form_);
  double linear = 0, square = 0, product = 0;
  for (size_t k = 0; k < form_.axes; ++k) {
    if (IsCategory(form_, k)) continue;
    const double z = Square(2 * x[k] - 1);
    linear += z;
    square += Square(z - 1.0 / 3);
    product += z * z;
  }
  return scales.variance + kConstantVariance + scales.linear * linear + scales.square * square +
         scales.product * 0.5 * (linear * linear - product);
}

GaussianProcess::Prediction GaussianProcess::At(const std::vector<double>& x) const {
  const std::vector<double> covariance = CovarianceWith(x, nullptr);
  const std::vector<double> known = LowerTimes(inverse_, covariance);
  const size_t n = covariance.size();
  return {Dot(covariance.data(), weights_.data(), n),
          std::max(PriorVariance(x) - Dot(known.data(), known.data(), n), kVarianceMin)};
}

GaussianProcess::Prediction GaussianProcess::At(const std::vector<double>& x,
                                                Slopes& slopes) const {
  RT_CHECK(!form_.has_products);
  const Scales scales(parameters_, form_);
  const size_t n = data_.count();
  std::vector<double> of_kernel;
  const std::vector<double> covariance = CovarianceWith(x, &of_kernel);
  const std::vector<double> known = LowerTimes(inverse_, covariance);
  const std::vector<double> back = TransposedTimes(inverse_, known);
  slopes.mean.assign(form_.axes, 0);
  slopes.variance.assign(form_.axes, 0);
  for (size_t k = 0; k < form_.axes; ++k) {
    if (IsCategory(form_, k)) continue;
    const double* at = &data_.coordinates[k * n];
    const double z = 2 * x[k] - 1, scale = scales.inverse_squares[k];
    double mean = 0, variance = 0, linear[2] = {}, square[2] = {};
    for (size_t i = 0; i < n; ++i) {
      const double pull = of_kernel[i] * (x[k] - at[i]) * scale;
      const double zi = 2 * at[i] - 1, qi = zi * zi - 1.0 / 3;
      mean -= weights_[i] * pull;
      variance += 2 * back[i] * pull;
      linear[0] += weights_[i] * zi;
      linear[1] += back[i] * zi;
      square[0] += weights_[i] * qi;
      square[1] += back[i] * qi;
    }
    slopes.mean[k] = mean + 2 * (scales.linear * linear[0] + 2 * scales.square * z * square[0]);
    slopes.variance[k] = variance -
                         4 * (scales.linear * linear[1] + 2 * scales.square * z * square[1]) +
                         4 * z * (scales.linear + 2 * scales.square * (z * z - 1.0 / 3));
  }
  return {Dot(covariance.data(), weights_.data(), n),
          std::max(PriorVariance(x) - Dot(known.data(), known.data(), n), kVarianceMin)};
}

double GaussianProcess::MeanAtData(size_t i) const {
  return data_.values[i] - weights_[i] * Exp(parameters_[form_.axes + 1]);
}

}  // namespace rt
