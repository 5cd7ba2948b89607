#include "common/search/value_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/rng.h"
#include "common/search/elementary.h"
#include "common/search/value_warp.h"

namespace rt {
namespace {

using Kernel = GaussianForm::Kernel;

constexpr uint64_t kRestartStream = 0x67705f72657321;
// There are this many more results, as a part and at least, when it selects scale and kernel, when
// it fits, and when it tries other starts.
constexpr double kSelectPart = 0.1, kFitPart = 0.02, kRestartPart = 0.1;
constexpr size_t kSelectMin = 3, kFitMin = 1, kRestartMin = 2;
constexpr int kFirstSteps = 30, kSelectSteps = 8, kKernelSteps = 12, kFitSteps = 10,
              kRestartSteps = 20;
constexpr double kBetterMin = 1e-3;  // By which another start must be better.
// The lengths of the second start: the logarithm of 0.15, and the deviation.
constexpr double kShortLength = -1.8971199848858813, kShortDeviation = 0.5;
constexpr double kRootOfTwo = 1.4142135623730951, kLnMillionth = -13.815510557964274;

bool HasGrown(size_t results, size_t since, double part, size_t least) {
  const double grown = static_cast<double>(results) - static_cast<double>(since);
  return grown >= std::max(static_cast<double>(least), part * static_cast<double>(results));
}

Kernel OtherThan(Kernel kernel) {
  return kernel == Kernel::kMatern ? Kernel::kSquaredExponential : Kernel::kMatern;
}

}  // namespace

GaussianForm WholeForm(const Encoding& encoding, double noise_chance) {
  GaussianForm form{.axes = encoding.axes().size(), .noise_chance = noise_chance};
  for (const Axis& axis : encoding.axes())
    form.is_category.push_back(axis.kind() == Axis::Kind::kCategories);
  form.length_mean = kRootOfTwo - 1 + 0.5 * Log(static_cast<double>(form.axes));
  form.length_deviation = 0.7;
  form.noise_mean = kLnMillionth;
  form.kernel = Kernel::kMatern;
  return form;
}

ValueModel::ValueModel(const Encoding& encoding, uint64_t seed, double noise_chance)
    : seed_(seed), is_perhaps_noisy_(noise_chance > 0), process_(WholeForm(encoding, noise_chance)),
      log_scale_(kNoScale) {}

bool ValueModel::LearnsAt(size_t results) const {
  return !is_selected_ || HasGrown(results, selected_at_, kSelectPart, kSelectMin) ||
         HasGrown(results, fitted_at_, kFitPart, kFitMin);
}

// The scale with the highest posterior density, and then the kernel.
bool ValueModel::SelectScale(const GaussianData& data, const GiveUp& give_up) {
  const GaussianProcess start = process_;
  GaussianData warped = data;
  double best = HUGE_VAL;
  const auto compare = [&](GaussianProcess process, double scale, int steps) {
    const double jacobian = WarpValues(scale, data.values, warped.values);
    const double loss = process.Fit(warped, steps, give_up) - jacobian;
    if (!(loss < best)) return;
    best = loss;
    log_scale_ = scale;
    process_ = std::move(process);
  };
  const std::vector<double> scales = ScalesToCompare(is_selected_, log_scale_);
  for (const double scale : scales) {
    compare(start, scale, is_selected_ ? kSelectSteps : kFirstSteps);
    if (give_up && give_up()) return false;
  }
  GaussianProcess other = process_;
  other.SetKernel(OtherThan(process_.kernel()));
  compare(std::move(other), log_scale_, is_selected_ ? kKernelSteps : kFirstSteps);
  return !(give_up && give_up());
}

// Fits from other starts: the parameters before any fit, short lengths, and clear noise.
bool ValueModel::LeaveMinimum(const GaussianData& warped, size_t results, const GiveUp& give_up) {
  double best = GaussianProcess(process_).Fit(warped, 0, give_up);
  enum class Start { kPrior, kShort, kNoisy };
  std::vector<Start> starts = {Start::kPrior, Start::kShort};
  if (is_perhaps_noisy_) starts.push_back(Start::kNoisy);
  for (const Start start : starts) {
    GaussianProcess other = process_;
    other.Reset();
    if (start == Start::kNoisy) other.ResetNoisy();
    if (start == Start::kShort) {
      Rng rng(seed_ ^ kRestartStream, results);
      std::vector<double> lengths = other.LogLengths();
      for (double& each : lengths)
        each = kShortLength + kShortDeviation * NormalQuantile(rng.Uniform());
      other.SetLogLengths(lengths);
    }
    const double loss = other.Fit(warped, kRestartSteps, give_up);
    if (give_up && give_up()) return false;
    if (loss >= best - kBetterMin) continue;
    best = loss;
    process_ = std::move(other);
  }
  return true;
}

bool ValueModel::Learn(const GaussianData& data, size_t results, const GiveUp& give_up) {
  if (!LearnsAt(results)) return true;
  const bool is_first = !is_selected_;
  const bool selects = is_first || HasGrown(results, selected_at_, kSelectPart, kSelectMin);
  const bool restarts = is_first || HasGrown(results, restarted_at_, kRestartPart, kRestartMin);
  if (selects) {
    if (!SelectScale(data, give_up)) return false;
    selected_at_ = results;
    is_selected_ = true;
  }
  GaussianData warped = data;
  WarpValues(log_scale_, data.values, warped.values);
  if (!selects) process_.Fit(warped, kFitSteps, give_up);
  if (give_up && give_up()) return false;
  fitted_at_ = results;
  if (!restarts) return true;
  restarted_at_ = results;
  return LeaveMinimum(warped, results, give_up);
}

std::optional<ValueModel::Conditioned> ValueModel::Condition(const GaussianData& data) const {
  Conditioned conditioned{process_, HUGE_VAL};
  GaussianData warped = data;
  WarpValues(log_scale_, data.values, warped.values);
  if (!conditioned.process.Condition(std::move(warped))) return std::nullopt;
  for (size_t i = 0; i < data.count(); ++i)
    conditioned.lowest = std::min(conditioned.lowest, conditioned.process.MeanAtData(i));
  return conditioned;
}

Expectation ValueModel::ExpectationOf(const GaussianData& data,
                                      const Prediction& prediction) const {
  return Unwarp(log_scale_, data.values, prediction);
}

bool Believe(GaussianProcess& process, const std::vector<Point>& points) {
  const GaussianData& known = process.data();
  GaussianData all{.axes = known.axes, .values = known.values};
  for (const Point& point : points) all.values.push_back(process.MeanAt(point));
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(known.count());
  for (size_t k = 0; k < known.axes; ++k) {
    const auto column = known.coordinates.begin() + static_cast<std::ptrdiff_t>(k) * count;
    all.coordinates.insert(all.coordinates.end(), column, column + count);
    for (const Point& point : points) all.coordinates.push_back(point[k]);
  }
  return process.Condition(std::move(all));
}

}  // namespace rt
