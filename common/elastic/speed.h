// How fast a class of jobs makes progress with a number of ranks, if each uses its best batch:
// goodput, which is throughput times statistical efficiency (Qiao et al., OSDI 2021, section 3), in
// scale-invariant iterations per second. Pure. Copies share nothing; one thread at a time, because
// reading fills a cache of step times.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/elastic/throughput.h"

namespace rt {

// What a job trains with.
struct BatchChoice {
  uint32_t local_batch = 0;
  uint32_t accumulation = 0;
  double rate = 0;  // Scale-invariant iterations per second; 0: no batch is possible.
};

// The candidate batches of a size: geometrically spaced between the smallest and the largest total
// batch. A single rank that trains with more than the initial batch accumulates, because one
// micro-batch cannot tell the noise.
struct BatchCandidate {
  double scale = 0;  // The total batch, in initial batches.
  uint32_t local_batch = 0;
  uint32_t accumulation = 0;
};
std::vector<BatchCandidate> BatchCandidates(const BatchLimits& limits, uint32_t ranks);

class Speed {
 public:
  // `points` is not empty.
  Speed(const BatchLimits& limits, const std::vector<StepPoint>& points)
      : limits_(limits), times_(points) {}

  BatchChoice Choose(const GradientNoise& noise, uint32_t nodes, uint32_t ranks) const;
  double Rate(const GradientNoise& noise, uint32_t nodes, uint32_t ranks) const {
    return Choose(noise, nodes, ranks).rate;
  }
  const StepTimes& times() const { return times_; }
  const BatchLimits& limits() const { return limits_; }

 private:
  struct Timed {
    BatchCandidate batch;
    double seconds = 0;  // Of a step with its accumulation.
  };
  const std::vector<Timed>& TimedFor(uint32_t nodes, uint32_t ranks) const;

  BatchLimits limits_;
  StepTimes times_;
  mutable std::map<std::pair<uint32_t, uint32_t>, std::vector<Timed>> cache_;
};

}  // namespace rt
