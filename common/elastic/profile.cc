#include "common/elastic/profile.h"

#include <algorithm>
#include <cmath>

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

bool IsValid(const StepPoint& point) {
  const double parts[] = {point.step_mean, point.step_variance, point.sync_mean,
                          point.sync_variance};
  const bool is_finite = std::all_of(std::begin(parts), std::end(parts),
                                     [](double part) { return std::isfinite(part) && part >= 0; });
  return is_finite && point.nodes > 0 && point.ranks >= point.nodes && point.local_batch > 0 &&
         point.count > 0 && point.sync_mean < point.step_mean;
}

}  // namespace rt
