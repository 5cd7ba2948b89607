#include "common/elastic/class_memory.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

constexpr double kNearWeight = 0.2, kNearBatch = 0.1;  // Within a tenth of the local batch.
constexpr double kUnknownTime_s = 600;

}  // namespace

uint32_t ClassMemory::MostRanks() const {
  uint32_t most = 0;
  for (const StepPoint& point : points) most = std::max(most, point.ranks);
  return most;
}

void ClassMemory::Learn(const ElasticProfile& measured, double slowness) {
  batches = measured.batches;
  std::vector<StepPoint> normalised = measured.points;
  for (StepPoint& point : normalised) {
    point.step_mean /= slowness;
    point.sync_mean /= slowness;
    point.step_variance /= slowness * slowness;
    point.sync_variance /= slowness * slowness;
  }
  MergePoints(points, normalised, kClassPointsMax);
  most_progress = std::max(most_progress, measured.progress);
  if (!(measured.noise_weight > 0)) return;
  if (has_noise && measured.progress > noise_progress) return;
  noise = measured.noise;
  noise_progress = measured.progress;
  has_noise = true;
}

void ClassMemory::LearnEnd(double total) {
  if (!(total > 0)) return;
  ++ended;
  log_totals += std::log(total);
  most_progress = std::max(most_progress, total);
}

double ClassMemory::ExpectedTotal(double progress, double rate) const {
  const double expected =
      ended > 0 ? std::exp(log_totals / ended)
                : std::max(2 * std::max(most_progress, progress), progress + kUnknownTime_s * rate);
  return expected > progress ? expected : 1.2 * progress;
}

double SlownessOf(const ClassMemory& memory, const Speed& speed,
                  const std::vector<StepPoint>& points) {
  double weights = 0, sum = 0;
  for (const StepPoint& point : points) {
    double expected_s = 0, weight = 0;
    for (const StepPoint& known : memory.points) {
      if (known.nodes != point.nodes || known.ranks != point.ranks) continue;
      const double apart = std::abs(static_cast<double>(known.local_batch) - point.local_batch);
      if (apart == 0) {
        expected_s = known.step_mean;
        weight = 1;
        break;
      }
      if (apart <= kNearBatch * point.local_batch + 1) weight = kNearWeight;
    }
    if (weight == 0) continue;
    if (expected_s == 0)
      expected_s = speed.times()
                       .Of(point.nodes, point.ranks, {static_cast<double>(point.local_batch)})
                       .front()
                       .step_s;
    weights += weight;
    sum += weight * std::log(point.step_mean / expected_s);
  }
  return weights > 0 ? std::exp(sum / weights) : 1;
}

}  // namespace rt
