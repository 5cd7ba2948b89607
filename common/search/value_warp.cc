#include "common/search/value_warp.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"

namespace rt {
namespace {

// Logarithms of scales: those that are compared first, and the step between a scale and the next.
constexpr double kFirstScales[] = {kNoScale, 2.3, 0, -2.3};
constexpr double kLargeScale = 3.5, kScaleStep = 1.2, kScaleMax = 5;

}  // namespace

double WarpValues(double log_scale, const std::vector<double>& values,
                  std::vector<double>& warped) {
  const size_t n = values.size();
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  // Quarters, because a difference may overflow.
  const double least = 0.25 * sorted.front();
  double unit = 0.25 * sorted[n / 2] - least;
  if (!(unit > 0)) unit = 0.25 * sorted.back() - least;
  if (!(unit > 0)) unit = 1;
  const bool is_scaled = std::isfinite(log_scale);
  const double scale = is_scaled ? Exp(log_scale) : 1;
  warped.resize(n);
  double jacobian = 0, mean = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) {
    // Far above the median only the order is of interest, and it must stay finite.
    const double u = std::min((0.25 * values[i] - least) / unit, 1e100);
    const double bent = is_scaled ? Log(1 + u / scale) : 0;
    warped[i] = is_scaled ? scale * bent : u;
    jacobian -= bent;
    mean += warped[i] / static_cast<double>(n);
  }
  for (double& each : warped) {
    each -= mean;
    squares += each * each / static_cast<double>(n);
  }
  const double deviation = squares > 0 ? std::sqrt(squares) : 1;
  for (double& each : warped) each /= deviation;
  return jacobian - static_cast<double>(n) * Log(deviation);
}

std::vector<double> ScalesToCompare(bool is_selected, double log_scale) {
  if (!is_selected) return {std::begin(kFirstScales), std::end(kFirstScales)};
  if (!std::isfinite(log_scale)) return {kNoScale, kLargeScale};
  return {log_scale, log_scale - kScaleStep,
          log_scale + kScaleStep > kScaleMax ? kNoScale : log_scale + kScaleStep};
}

}  // namespace rt
