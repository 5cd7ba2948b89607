#include "common/search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/search/elementary.h"

namespace rt {
namespace {

constexpr double kNoScale = std::numeric_limits<double>::infinity();
// So many standard deviations round the mean are the cube that the process sees.
constexpr double kReach = 3;
// The points that the process sees: so many, and more for each axis. The work grows with their
// cube.
constexpr size_t kPointsMin = 30, kPointsPerAxis = 15, kPointsMax = 200;
// Logarithms of scales: those that are compared first, and the step between a scale and the next.
constexpr double kFirstScales[] = {kNoScale, 2.3, 0, -2.3};
constexpr double kLargeScale = 3.5, kScaleStep = 1.2, kScaleMax = 5;
// A scale is selected again when there are this many more points, as a part and at least.
constexpr double kSelectPart = 0.1, kSelectMin = 4;
constexpr int kFirstSteps = 20, kSelectSteps = 8, kFitSteps = 5;
constexpr double kHalfLn2Pi = 0.9189385332046727;

// ln(phi(z) + z Phi(z)).
double LogHope(double z) {
  const double density = -0.5 * z * z - kHalfLn2Pi;
  if (z > -25) {
    const double hope = Exp(density) + z * NormalCdf(z);
    if (hope > 0) return Log(hope);
  }
  return density - 2 * Log(std::abs(z)) + Log(1 - 3 / (z * z));
}

// The values with the scale, standardised; returns the logarithm of the Jacobian's determinant.
double Warp(double log_scale, const std::vector<double>& values, std::vector<double>& warped) {
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

}  // namespace

Surrogate::Surrogate(size_t axes)
    : axes_(axes), around_(axes), process_(axes), log_scale_(kNoScale) {}

std::vector<double> Surrogate::Local(const Point& point) const {
  std::vector<double> local = around_.Whiten(point);
  for (double& each : local) each = each / (2 * kReach) + 0.5;
  return local;
}

bool Surrogate::Gather(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated) {
  around_ = around;
  std::vector<std::pair<double, size_t>> nearest;
  for (size_t i = 0; i < evaluated.size(); ++i) {
    double squares = 0;
    for (const double each : around_.Whiten(evaluated[i].point)) squares += each * each;
    nearest.emplace_back(squares, i);
  }
  const size_t count = std::min({nearest.size(), kPointsMin + kPointsPerAxis * axes_, kPointsMax});
  std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(count),
                    nearest.end());
  data_ = {.axes = axes_};
  data_.coordinates.resize(count * axes_);
  double worst = -HUGE_VAL;
  for (size_t i = 0; i < count; ++i) {
    const EvaluatedPoint& at = evaluated[nearest[i].second];
    const std::vector<double> local = Local(at.point);
    for (size_t k = 0; k < axes_; ++k) data_.coordinates[k * count + i] = local[k];
    data_.values.push_back(at.value);
    if (std::isfinite(at.value)) worst = std::max(worst, at.value);
  }
  for (double& value : data_.values)
    if (!std::isfinite(value)) value = worst;
  return std::isfinite(worst);
}

bool Surrogate::Select(size_t evaluated, const GiveUp& give_up) {
  std::vector<double> scales;
  if (!is_selected_) scales.assign(std::begin(kFirstScales), std::end(kFirstScales));
  else if (!std::isfinite(log_scale_)) scales = {kNoScale, kLargeScale};
  else
    scales = {log_scale_, log_scale_ - kScaleStep,
              log_scale_ + kScaleStep > kScaleMax ? kNoScale : log_scale_ + kScaleStep};
  const int steps = is_selected_ ? kSelectSteps : kFirstSteps;
  double best = HUGE_VAL, best_scale = kNoScale;
  GaussianProcess best_process = process_;
  GaussianData warped = data_;
  for (const double scale : scales) {
    const double jacobian = Warp(scale, data_.values, warped.values);
    for (const bool is_fresh : {false, true}) {
      GaussianProcess process = process_;
      if (is_fresh) process.Reset();
      const double loss = process.Fit(warped, steps, give_up) - jacobian;
      if (give_up && give_up()) return false;
      if (loss >= best) continue;
      best = loss;
      best_scale = scale;
      best_process = process;
    }
  }
  process_ = best_process;
  log_scale_ = best_scale;
  is_selected_ = true;
  selected_at_ = evaluated;
  return true;
}

bool Surrogate::Fit(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated,
                    const GiveUp& give_up) {
  if (!Gather(around, evaluated)) return false;
  const double known = static_cast<double>(evaluated.size());
  const double grown = known - static_cast<double>(selected_at_);
  const bool selects = !is_selected_ || grown >= std::max(kSelectMin, kSelectPart * known);
  GaussianData warped = data_;
  if (selects && !Select(evaluated.size(), give_up)) return false;
  Warp(log_scale_, data_.values, warped.values);
  if (!selects) process_.Fit(warped, kFitSteps, give_up);
  if (give_up && give_up()) return false;
  const size_t count = warped.count();
  if (!process_.Condition(std::move(warped))) return false;
  FindLowest(count);
  return true;
}

bool Surrogate::Condition(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated,
                          const std::vector<Point>& in_flight) {
  if (!Gather(around, evaluated)) return false;
  GaussianData warped = data_;
  Warp(log_scale_, data_.values, warped.values);
  const size_t count = warped.count();
  if (!process_.Condition(warped)) return false;
  FindLowest(count);
  if (in_flight.empty()) return true;
  GaussianData all{.axes = axes_, .values = warped.values};
  std::vector<std::vector<double>> locals;
  for (const Point& point : in_flight) {
    locals.push_back(Local(point));
    all.values.push_back(process_.MeanAt(locals.back()));
  }
  for (size_t k = 0; k < axes_; ++k) {
    const auto column = warped.coordinates.begin() + static_cast<std::ptrdiff_t>(k * count);
    all.coordinates.insert(all.coordinates.end(), column,
                           column + static_cast<std::ptrdiff_t>(count));
    for (const std::vector<double>& local : locals) all.coordinates.push_back(local[k]);
  }
  return process_.Condition(std::move(all));
}

void Surrogate::FindLowest(size_t count) {
  lowest_ = HUGE_VAL;
  for (size_t i = 0; i < count; ++i) lowest_ = std::min(lowest_, process_.MeanAtData(i));
}

double Surrogate::MeanAt(const Point& point) const { return process_.MeanAt(Local(point)); }

double Surrogate::LogImprovementAt(const Point& point) const {
  const GaussianProcess::Prediction at = process_.At(Local(point));
  const double deviation = std::sqrt(at.variance);
  return LogHope((lowest_ - at.mean) / deviation) + Log(deviation);
}

}  // namespace rt
