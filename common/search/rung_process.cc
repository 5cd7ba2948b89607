#include "common/search/rung_process.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/search/value_model.h"

namespace rt {
namespace {

constexpr int kSteps = 15;
// The prior of a slope, which weighs as much as kSlopeWeight standardised values: a value is
// equally good at both rungs.
constexpr double kSlopeMean = 1, kSlopeWeight = 2;

std::vector<double> PointOf(const GaussianData& data, size_t i) {
  std::vector<double> point(data.axes);
  for (size_t k = 0; k < data.axes; ++k) point[k] = data.coordinates[k * data.count() + i];
  return point;
}

}  // namespace

std::vector<double> RungProcess::ExpectedAt(const GaussianData& data) const {
  std::vector<double> expected;
  if (stages_.empty()) return expected;
  for (size_t i = 0; i < data.count(); ++i) expected.push_back(MeanAt(PointOf(data, i)));
  return expected;
}

RungProcess::Line RungProcess::TakeLine(const std::vector<double>& expected,
                                        std::vector<double>& values) {
  Line line;
  if (expected.empty()) return line;
  const double count = static_cast<double>(expected.size());
  for (const double each : expected) line.centre += each / count;
  double squares = kSlopeWeight, products = kSlopeWeight * kSlopeMean, rest = 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double distance = expected[i] - line.centre;
    squares += distance * distance;
    products += distance * values[i];
  }
  line.slope = products / squares;
  for (size_t i = 0; i < expected.size(); ++i) {
    values[i] -= line.slope * (expected[i] - line.centre);
    rest += values[i] * values[i];
  }
  line.slope_variance = rest / (count + 1) / squares;
  return line;
}

double RungProcess::Fit(const GaussianData& data, GaussianProcess& process,
                        const GiveUp& give_up) const {
  GaussianData rest = data;
  TakeLine(ExpectedAt(data), rest.values);
  return process.Fit(rest, kSteps, give_up);
}

bool RungProcess::Add(GaussianData data, GaussianProcess process) {
  const std::vector<double> expected = ExpectedAt(data);
  Stage stage{std::move(process), TakeLine(expected, data.values), HUGE_VAL};
  const size_t count = data.count();
  if (!stage.process.Condition(std::move(data))) return false;
  for (size_t i = 0; i < count; ++i) {
    const double below =
        expected.empty() ? 0 : stage.line.slope * (expected[i] - stage.line.centre);
    stage.lowest = std::min(stage.lowest, below + stage.process.MeanAtData(i));
  }
  stages_.push_back(std::move(stage));
  return true;
}

bool RungProcess::Believe(const std::vector<std::vector<double>>& points) {
  return points.empty() || rt::Believe(stages_.back().process, points);
}

double RungProcess::MeanOf(size_t rungs, const std::vector<double>& x) const {
  double mean = 0;
  for (size_t rung = 0; rung < rungs; ++rung) {
    const Stage& stage = stages_[rung];
    const double below = rung == 0 ? 0 : stage.line.slope * (mean - stage.line.centre);
    mean = below + stage.process.MeanAt(x);
  }
  return mean;
}

Prediction RungProcess::At(const std::vector<double>& x) const {
  Prediction at = stages_.back().process.At(x);
  if (stages_.size() == 1) return at;
  const Line& line = stages_.back().line;
  const double distance = MeanOf(stages_.size() - 1, x) - line.centre;
  at.mean += line.slope * distance;
  at.variance += line.slope_variance * distance * distance;
  return at;
}

Prediction RungProcess::At(const std::vector<double>& x, PredictionSlopes& slopes) const {
  if (stages_.size() == 1) return stages_.back().process.At(x, slopes);
  const size_t axes = x.size();
  std::vector<double> below(axes, 0);  // The slopes of the mean at the rung below.
  double mean = 0;
  for (size_t rung = 0; rung + 1 < stages_.size(); ++rung) {
    const Stage& stage = stages_[rung];
    const Prediction at = stage.process.At(x, slopes);
    mean = (rung == 0 ? 0 : stage.line.slope * (mean - stage.line.centre)) + at.mean;
    for (size_t k = 0; k < axes; ++k) below[k] = stage.line.slope * below[k] + slopes.mean[k];
  }
  const Line& line = stages_.back().line;
  Prediction at = stages_.back().process.At(x, slopes);
  const double distance = mean - line.centre;
  at.mean += line.slope * distance;
  at.variance += line.slope_variance * distance * distance;
  for (size_t k = 0; k < axes; ++k) {
    slopes.mean[k] += line.slope * below[k];
    slopes.variance[k] += 2 * line.slope_variance * distance * below[k];
  }
  return at;
}

}  // namespace rt
