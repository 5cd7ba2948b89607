// What is known of how fast a job trains: sufficient statistics of the times of its steps by their
// shape, its gradient noise, and its progress. A trial's rank 0 sends what it measured since its
// last message; the statistics are merged, bounded, and kept in the state of the head. Pure values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt {

// The steps of one shape: how many were measured, and the mean and the variance (of a single step,
// biased) of two times in seconds. `step_s` is one micro-batch with the optimiser's step, as a
// whole; `sync_s` is its part after the last local gradient, which other ranks may delay.
struct StepPoint {
  uint32_t nodes = 0;
  uint32_t ranks = 0;
  uint32_t local_batch = 0;   // Samples of one micro-batch on one rank.
  uint32_t accumulation = 0;  // Micro-batches before the last one.
  std::string gpu_type;       // Empty: no gpu, or unknown.
  uint64_t count = 0;
  double step_mean = 0;
  double step_variance = 0;
  double sync_mean = 0;
  double sync_variance = 0;
  RT_FIELDS(StepPoint, nodes, ranks, local_batch, accumulation, gpu_type, count, step_mean,
            step_variance, sync_mean, sync_variance);

  auto shape() const { return std::tie(nodes, ranks, local_batch, accumulation, gpu_type); }
};

// Which batches a job may train with. `initial` samples are one scale-invariant iteration.
struct BatchLimits {
  double initial = 0;
  double most = 0;         // Samples of one step of all ranks.
  uint32_t local_min = 0;  // Of one micro-batch on one rank; 0: 1.
  uint32_t local_max = 0;  // 0: as many as `most`.
  bool accumulates = false;
  RT_FIELDS(BatchLimits, initial, most, local_min, local_max, accumulates);
};

// The gradient noise at the initial batch: the squared norm of the gradient, and the variance of a
// gradient of `initial` samples (McCandlish et al. 2018; AdaScale, Johnson et al. 2020).
struct GradientNoise {
  double squared_norm = 0;
  double variance = 1;
  RT_FIELDS(GradientNoise, squared_norm, variance);

  // How much more a step with `scale` times the initial batch achieves; between 1 and `scale`.
  double Gain(double scale) const {
    const double divisor = variance / scale + squared_norm;
    return divisor > 0 ? (variance + squared_norm) / divisor : 1;
  }
};

struct ElasticProfile {
  BatchLimits batches;
  GradientNoise noise;
  double progress = 0;            // In scale-invariant iterations.
  double total = 0;               // Of the whole training; 0: unknown.
  std::vector<StepPoint> points;  // Ascending by shape, each shape once.
  double noise_weight = 1;        // Measurements behind the noise; 0: it is unknown.
  RT_FIELDS(ElasticProfile, batches, noise, progress, total, points, noise_weight);

  uint32_t MostRanks() const;  // Of the points; 0 without any.
};

// Adds the measurements of `more` to `points`, which stay ascending. A shape forgets old steps
// gradually once `kStepsRemembered` were counted. Beyond `most` shapes, those with the fewest steps
// are dropped, but never the newest measurements.
inline constexpr uint64_t kStepsRemembered = 1'000;
void MergePoints(std::vector<StepPoint>& points, const std::vector<StepPoint>& more, size_t most);
// Adds the points, and takes the newer noise (if it is known), progress and limits.
void MergeProfile(ElasticProfile& known, const ElasticProfile& more, size_t points_max);

// What a worker daemon sends of an attempt: what its rank 0 has measured and the head has not
// recorded yet, up to its line `seq`.
struct ProfileReport {
  Fence fence;
  uint64_t seq = 0;
  ElasticProfile profile;
  RT_FIELDS(ProfileReport, fence, seq, profile);
};

// Whether the numbers are those of a measurement: finite, positive times, and a sync time that is
// a part of its step.
bool IsValid(const StepPoint& point);
// Whether a message may be taken; names the field that says something impossible.
absl::Status CheckProfile(const ElasticProfile& profile);

}  // namespace rt
