#include "common/search/surrogate.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"
#include "common/search/improvement.h"
#include "common/search/value_warp.h"

namespace rt {
namespace {

// So many standard deviations round the mean are the cube that the process sees.
constexpr double kReach = 3;
// The points that the process sees: so many, and more for each axis. The work grows with their
// cube.
constexpr size_t kPointsMin = 30, kPointsPerAxis = 15, kPointsMax = 200;
// A scale is selected again when there are this many more points, as a part and at least.
constexpr double kSelectPart = 0.1, kSelectMin = 4;
constexpr int kFirstSteps = 20, kSelectSteps = 8, kFitSteps = 5;

// Lengths are about half of the reach; in many axes they are longer.
GaussianForm NearbyForm(size_t axes) {
  constexpr double kLnHalf = -0.6931471805599453, kLn1e5 = -11.512925464970229;
  return {.axes = axes,
          .length_mean = kLnHalf + 0.5 * Log(static_cast<double>(axes)),
          .length_deviation = 0.4,
          .noise_mean = kLn1e5,
          .has_products = true};
}

}  // namespace

Surrogate::Surrogate(size_t axes)
    : axes_(axes), around_(axes), process_(NearbyForm(axes)), log_scale_(kNoScale) {}

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
  const std::vector<double> scales = ScalesToCompare(is_selected_, log_scale_);
  const int steps = is_selected_ ? kSelectSteps : kFirstSteps;
  double best = HUGE_VAL, best_scale = kNoScale;
  GaussianProcess best_process = process_;
  GaussianData warped = data_;
  for (const double scale : scales) {
    const double jacobian = WarpValues(scale, data_.values, warped.values);
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
  WarpValues(log_scale_, data_.values, warped.values);
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
  WarpValues(log_scale_, data_.values, warped.values);
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
  return HopeAt((lowest_ - at.mean) / deviation).logarithm + Log(deviation);
}

}  // namespace rt
