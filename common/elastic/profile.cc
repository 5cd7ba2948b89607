#include "common/elastic/profile.h"

#include <algorithm>
#include <cmath>

#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "common/base/status.h"

namespace rt {
namespace {

// Mean and variance of two samples together (Chan, Golub and LeVeque 1979).
void Combine(double& mean, double& variance, double count, double other_mean, double other_variance,
             double other_count) {
  const double all = count + other_count;
  const double apart = other_mean - mean;
  variance = (count * variance + other_count * other_variance) / all +
             apart * apart * count * other_count / (all * all);
  mean += apart * other_count / all;
}

void Add(StepPoint& point, const StepPoint& more) {
  const auto count = static_cast<double>(point.count);
  const auto other = static_cast<double>(more.count);
  Combine(point.step_mean, point.step_variance, count, more.step_mean, more.step_variance, other);
  Combine(point.sync_mean, point.sync_variance, count, more.sync_mean, more.sync_variance, other);
  point.count = std::min(point.count + more.count, kStepsRemembered);
}

void DropRarest(std::vector<StepPoint>& points, const std::vector<StepPoint>& kept) {
  const auto is_kept = [&](const StepPoint& point) {
    return std::any_of(kept.begin(), kept.end(),
                       [&](const StepPoint& one) { return one.shape() == point.shape(); });
  };
  auto rarest = points.end();
  for (auto point = points.begin(); point != points.end(); ++point)
    if (!is_kept(*point) && (rarest == points.end() || point->count < rarest->count))
      rarest = point;
  points.erase(rarest == points.end() ? points.begin() : rarest);
}

}  // namespace

uint32_t ElasticProfile::MostRanks() const {
  uint32_t most = 0;
  for (const StepPoint& point : points) most = std::max(most, point.ranks);
  return most;
}

void MergePoints(std::vector<StepPoint>& points, const std::vector<StepPoint>& more, size_t most) {
  for (const StepPoint& point : more) {
    const auto place = std::lower_bound(
        points.begin(), points.end(), point,
        [](const StepPoint& a, const StepPoint& b) { return a.shape() < b.shape(); });
    if (place != points.end() && place->shape() == point.shape()) Add(*place, point);
    else points.insert(place, point);
  }
  while (points.size() > most) DropRarest(points, more);
}

void MergeProfile(ElasticProfile& known, const ElasticProfile& more, size_t points_max) {
  known.batches = more.batches;
  if (more.noise_weight > 0 || known.points.empty()) {
    known.noise = more.noise;
    known.noise_weight = more.noise_weight;
  }
  known.progress = more.progress;
  known.total = more.total;
  MergePoints(known.points, more.points, points_max);
}

bool IsValid(const StepPoint& point) {
  const double parts[] = {point.step_mean, point.step_variance, point.sync_mean,
                          point.sync_variance};
  const bool is_finite = std::all_of(std::begin(parts), std::end(parts),
                                     [](double part) { return std::isfinite(part) && part >= 0; });
  return is_finite && point.nodes > 0 && point.ranks >= point.nodes && point.local_batch > 0 &&
         point.count > 0 && point.sync_mean < point.step_mean;
}

absl::Status CheckProfile(const ElasticProfile& profile) {
  const auto is_number = [](double value) {
    return std::isfinite(value) && value >= 0 && value <= limits::kElasticNumberMax;
  };
  const BatchLimits& batches = profile.batches;
  if (!(batches.initial >= 1) || !is_number(batches.initial))
    return Invalid("a profile's initial_batch must be a number from 1");
  if (!is_number(batches.most) || batches.most < batches.initial)
    return Invalid("a profile's max_batch must be a number from its initial_batch");
  if (batches.local_max != 0 && batches.local_max < batches.local_min)
    return Invalid("a profile's local_bounds must be the smallest and the largest batch");
  if (!is_number(profile.progress) || !is_number(profile.total))
    return Invalid("a profile's progress and total must be numbers from 0");
  if (!is_number(profile.noise.squared_norm) || !is_number(profile.noise.variance) ||
      !is_number(profile.noise_weight))
    return Invalid("a profile's sqr, var and noise_weight must be numbers from 0");
  if (profile.points.size() > limits::kProfilePointsMax)
    return Invalid("a profile has at most " + std::to_string(limits::kProfilePointsMax) +
                   " points");
  for (const StepPoint& point : profile.points) {
    const bool is_valid = IsValid(point) && point.step_mean <= limits::kStepSecondsMax &&
                          point.step_variance <= limits::kElasticNumberMax &&
                          point.sync_variance <= limits::kElasticNumberMax &&
                          point.ranks <= limits::kBundlesMax &&
                          point.gpu_type.size() <= limits::kGpuTypeBytesMax;
    if (!is_valid)
      return Invalid("a point of a profile has times or counts that cannot be measured");
  }
  return absl::OkStatus();
}

}  // namespace rt
