#include "common/search/bandit.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"
#include "common/search/triangular.h"

namespace rt {
namespace {

constexpr double kLengths[] = {0.2, 0.5, 1, 2};
constexpr double kDrifts[] = {0.01, 0.1, 0.3, 0.5};
constexpr double kNoises[] = {0.01, 0.1, 0.5};
constexpr double kValueMax = 2;  // Of standardised values: one outlier does not rule the process.
constexpr size_t kDraws = 256;   // Points at which the bound is looked at first,
constexpr size_t kRefined = 3;   // and the best of them, which are improved along the axes,
constexpr double kStepFirst = 0.1;  // by steps from this
constexpr double kStepLast = 0.01;  // down to this.

using BanditPoint = std::vector<double>;

struct BanditKernel {
  double length = 1, drift = 0.1, noise = 0.1;

  double At(const BanditPoint& a, const BanditPoint& b, double apart) const {
    double square = 0;
    for (size_t k = 0; k < a.size(); ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    return Exp(-square / (2 * length * length) + Log(1 - drift) * std::abs(apart) / 2);
  }
};

std::vector<double> Standardised(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double mean = 0, square = 0;
  for (double value : values) mean += value / count;
  for (double value : values) square += (value - mean) * (value - mean) / count;
  const double deviation = std::sqrt(square);
  std::vector<double> result;
  if (!(deviation > 0) || !std::isfinite(deviation)) return result;
  for (double value : values)
    result.push_back(std::clamp((value - mean) / deviation, -kValueMax, kValueMax));
  return result;
}

// Points with their times, and the inverse of their covariance's factor.
class BanditProcess {
 public:
  BanditProcess(BanditKernel kernel, std::vector<BanditPoint> points, std::vector<double> times)
      : kernel_(kernel), points_(std::move(points)), times_(std::move(times)) {}

  bool Factorise() {
    const size_t n = points_.size();
    std::vector<double> matrix(n * n);
    for (size_t column = 0; column < n; ++column)
      for (size_t row = column; row < n; ++row)
        matrix[column * n + row] =
            kernel_.At(points_[row], points_[column], times_[row] - times_[column]) +
            (row == column ? kernel_.noise : 0);
    if (!FactoriseLower(matrix, n)) return false;
    log_determinant_ = 0;
    for (size_t i = 0; i < n; ++i) log_determinant_ += 2 * Log(matrix[i * n + i]);
    inverse_ = InverseOfLower(matrix, n);
    return true;
  }
  // The logarithm of the likelihood of the values, but for a constant.
  double Likelihood(const std::vector<double>& values) const {
    const std::vector<double> white = LowerTimes(inverse_, values);
    return -(Dot(white.data(), white.data(), white.size()) + log_determinant_) / 2;
  }
  void Learn(const std::vector<double>& values) {
    weights_ = TransposedTimes(inverse_, LowerTimes(inverse_, values));
  }
  double Mean(const BanditPoint& x, double now) const {
    const std::vector<double> with = CovarianceWith(x, now);
    return Dot(with.data(), weights_.data(), with.size());
  }
  double Deviation(const BanditPoint& x, double now) const {
    const std::vector<double> white = LowerTimes(inverse_, CovarianceWith(x, now));
    return std::sqrt(std::max(0.0, 1 - Dot(white.data(), white.data(), white.size())));
  }

 private:
  std::vector<double> CovarianceWith(const BanditPoint& x, double now) const {
    std::vector<double> with;
    for (size_t i = 0; i < points_.size(); ++i)
      with.push_back(kernel_.At(x, points_[i], now - times_[i]));
    return with;
  }

  BanditKernel kernel_;
  std::vector<BanditPoint> points_;
  std::vector<double> times_;
  std::vector<double> inverse_, weights_;
  double log_determinant_ = 0;
};

BanditPoint DrawnPoint(size_t axes, Rng& rng) {
  BanditPoint point;
  for (size_t k = 0; k < axes; ++k) point.push_back(rng.Uniform());
  return point;
}

std::optional<BanditKernel> FitKernel(const BanditData& data, const std::vector<double>& values,
                                      const GiveUp& give_up) {
  std::optional<BanditKernel> best;
  double most = 0;
  for (double length : kLengths)
    for (double drift : kDrifts)
      for (double noise : kNoises) {
        if (give_up && give_up()) return std::nullopt;
        const BanditKernel kernel{length, drift, noise};
        BanditProcess process(kernel, data.points, data.times);
        if (!process.Factorise()) continue;
        const double likelihood = process.Likelihood(values);
        if (!std::isfinite(likelihood) || (best && likelihood <= most)) continue;
        best = kernel;
        most = likelihood;
      }
  return best;
}

// Improves the point by steps along each axis, which become shorter.
template <class Bound>
void Refine(const Bound& bound, BanditPoint& point, double& most) {
  for (double step = kStepFirst; step >= kStepLast; step /= 2) {
    for (size_t k = 0; k < point.size(); ++k) {
      for (double direction : {-step, step}) {
        BanditPoint moved = point;
        moved[k] = std::clamp(moved[k] + direction, 0.0, 1.0);
        if (const double there = bound(moved); there > most) {
          most = there;
          point = moved;
        }
      }
    }
  }
}

}  // namespace

std::optional<std::vector<double>> NextOfBandit(const BanditData& data, Rng& rng,
                                                const GiveUp& give_up) {
  const std::vector<double> values = Standardised(data.values);
  if (values.size() < 2) return DrawnPoint(data.axes, rng);
  const std::optional<BanditKernel> kernel = FitKernel(data, values, give_up);
  if (!kernel) return std::nullopt;
  BanditProcess known(*kernel, data.points, data.times);
  std::vector<BanditPoint> all = data.points;
  std::vector<double> times = data.times;
  for (const BanditPoint& point : data.pending) {
    all.push_back(point);
    times.push_back(data.now);
  }
  BanditProcess tried(*kernel, std::move(all), std::move(times));
  if (!known.Factorise() || !tried.Factorise()) return std::nullopt;
  known.Learn(values);
  const double spread =
      std::sqrt(0.2 + std::max(0.0, Log(0.4 * static_cast<double>(values.size()))));
  const auto bound = [&](const BanditPoint& x) {
    return known.Mean(x, data.now) + spread * tried.Deviation(x, data.now);
  };
  std::vector<std::pair<double, BanditPoint>> candidates;
  for (size_t i = 0; i < kDraws; ++i) {
    BanditPoint point = DrawnPoint(data.axes, rng);
    const double there = bound(point);
    candidates.emplace_back(there, std::move(point));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  candidates.resize(kRefined);
  for (auto& [there, point] : candidates) {
    if (give_up && give_up()) return std::nullopt;
    Refine(bound, point, there);
  }
  return std::max_element(candidates.begin(), candidates.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace rt
