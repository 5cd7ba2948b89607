// What the jobs of one class (the same program with the same settings) have taught: a new job of
// the class begins with a throughput model, a noise and an expected length, and may take its target
// size at once. Its step times are in units of the class's first job; a job that is slower
// throughout, on other hardware or with another configuration, is normalised by its slowness. Pure
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/fields.h"
#include "common/elastic/profile.h"
#include "common/elastic/speed.h"

namespace rt {

inline constexpr size_t kClassPointsMax = 256;  // 8 sizes with 32 local batches each.

struct ClassMemory {
  BatchLimits batches;
  std::vector<StepPoint> points;  // Ascending by shape; at most kClassPointsMax.
  GradientNoise noise;            // Where training begins:
  double noise_progress = 0;      // the one that was seen earliest.
  bool has_noise = false;
  uint32_t ended = 0;        // Jobs that ended by themselves.
  double log_totals = 0;     // The sum of log(total) over them.
  double most_progress = 0;  // Of any job.
  RT_FIELDS(ClassMemory, batches, points, noise, noise_progress, has_noise, ended, log_totals,
            most_progress);

  // Adds what a job of this slowness has measured.
  void Learn(const ElasticProfile& measured, double slowness);
  void LearnEnd(double total);
  uint32_t MostRanks() const;
  // How much a job of the class has to do, in scale-invariant iterations, by the geometric mean of
  // those that ended; without any, twice the most that was seen. `rate`: its own with one rank.
  double ExpectedTotal(double progress, double rate) const;
};

// The geometric mean of observed over expected step times; 1 without a measurement to compare. A
// shape that the class measured, too, counts five times as much as one with a similar local batch.
double SlownessOf(const ClassMemory& memory, const Speed& speed,
                  const std::vector<StepPoint>& points);

}  // namespace rt
