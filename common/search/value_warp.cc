#include "common/search/value_warp.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"

namespace rt {
namespace {

// Logarithms of scales: those that are compared first, and the step between a scale and the next.
constexpr double kFirstScales[] = {kNoScale, 2.3, 0, -2.3};
constexpr double kLargeScale = 3.5, kScaleStep = 1.2, kScaleMax = 5;

// What the scale makes of one value, before all are standardised.
class Bend {
 public:
  Bend(double log_scale, const std::vector<double>& values)
      : is_scaled_(std::isfinite(log_scale)), scale_(is_scaled_ ? Exp(log_scale) : 1) {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    // Quarters, because a difference may overflow.
    least_ = 0.25 * sorted.front();
    unit_ = 0.25 * sorted[values.size() / 2] - least_;
    if (!(unit_ > 0)) unit_ = 0.25 * sorted.back() - least_;
    if (!(unit_ > 0)) unit_ = 1;
  }

  // Adds what the Jacobian's logarithm loses by it to `lost`.
  double Of(double value, double& lost) const {
    // Far above the median only the order is of interest, and it must stay finite.
    const double u = std::min((0.25 * value - least_) / unit_, 1e100);
    if (!is_scaled_) return u;
    const double bent = Log(1 + u / scale_);
    lost += bent;
    return scale_ * bent;
  }
  double Undo(double bent) const {
    const double u = is_scaled_ ? scale_ * (Exp(bent / scale_) - 1) : bent;
    return 4 * (u * unit_ + least_);
  }

 private:
  bool is_scaled_;
  double scale_, least_ = 0, unit_ = 1;
};

struct Spread {
  double mean = 0, deviation = 1;
};

// Standardises them.
Spread Standardise(std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  Spread spread;
  double squares = 0;
  for (const double each : values) spread.mean += each / n;
  for (double& each : values) {
    each -= spread.mean;
    squares += each * each / n;
  }
  if (squares > 0) spread.deviation = std::sqrt(squares);
  for (double& each : values) each /= spread.deviation;
  return spread;
}

}  // namespace

double WarpValues(double log_scale, const std::vector<double>& values,
                  std::vector<double>& warped) {
  const Bend bend(log_scale, values);
  const size_t n = values.size();
  warped.resize(n);
  double lost = 0;
  for (size_t i = 0; i < n; ++i) warped[i] = bend.Of(values[i], lost);
  return -lost - static_cast<double>(n) * Log(Standardise(warped).deviation);
}

Expectation Unwarp(double log_scale, const std::vector<double>& values,
                   const Prediction& prediction) {
  const Bend bend(log_scale, values);
  std::vector<double> bent;
  double lost = 0;
  for (const double each : values) bent.push_back(bend.Of(each, lost));
  const Spread spread = Standardise(bent);
  const auto undo = [&](double warped) {
    return bend.Undo(warped * spread.deviation + spread.mean);
  };
  const double deviation = std::sqrt(prediction.variance);
  return {undo(prediction.mean), undo(prediction.mean - deviation),
          undo(prediction.mean + deviation)};
}

std::vector<double> ScalesToCompare(bool is_selected, double log_scale) {
  if (!is_selected) return {std::begin(kFirstScales), std::end(kFirstScales)};
  if (!std::isfinite(log_scale)) return {kNoScale, kLargeScale};
  return {log_scale, log_scale - kScaleStep,
          log_scale + kScaleStep > kScaleMax ? kNoScale : log_scale + kScaleStep};
}

}  // namespace rt
