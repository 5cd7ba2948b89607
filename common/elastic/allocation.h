// How many ranks each elastic job should have: the seam behind which policies are. A policy sees
// the jobs of one moment and answers with a size for each. It decides neither where the ranks are
// placed nor whether a change is carried out: the core of the head checks both against its state of
// then. Pure; the answer follows from the round alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/elastic/speed.h"

namespace rt {

struct ElasticJob {
  // Its throughput, of itself or of its class. Null: nothing was measured.
  const Speed* speed = nullptr;
  GradientNoise noise;
  double progress = 0;  // Scale-invariant iterations,
  double total = 0;     // of so many; 0: unknown.
  double slowness = 1;  // Its step times as a multiple of those of `speed`.
  uint32_t ranks = 0;   // Now; 0: it does not run.
  uint32_t ranks_min = 1;
  uint32_t ranks_max = 1;
  uint32_t ranks_measured = 0;  // The most of which times are known.
  double units = 1;             // Capacity that one rank takes.
  double restart_s = 30;        // What a change of its size costs.
  // Jobs of a lower priority get what those of a higher one leave, beyond their minima.
  int priority = 0;
  // Whether it gets its minimum before any other job gets more than its own.
  bool has_claim = true;
  bool is_fixed = false;  // It keeps its size in this round.
};

struct ElasticRound {
  std::vector<ElasticJob> jobs;
  double capacity = 0;          // Units that elastic jobs may have together.
  uint32_t ranks_per_node = 1;  // Of one unit each: where a gang needs a second node.
  double arrival_s = 0;         // Mean time between arrivals over the last hour; 0: none arrived.
  uint32_t growth = 2;          // Beyond measured sizes, a job may grow by this factor at a time,
  uint32_t first = 1;           // and begins with at most so many ranks.
};

class ElasticPolicy {
 public:
  virtual ~ElasticPolicy() = default;
  virtual std::string_view name() const = 0;
  // A size for each job: 0, or between its minimum and its maximum. The sizes fit the capacity,
  // unless the fixed jobs alone exceed it. The minima of jobs with a claim come first, those of a
  // higher priority before others. Then each priority is shared out before the next lower one.
  virtual std::vector<uint32_t> Allocate(const ElasticRound& round) const = 0;
};

// Every job of one priority the same share, as far as its bounds allow; those that arrived first
// get the remainder. The jobs of a round are in the order of their arrival.
const ElasticPolicy& EqualSplit();
// The least sum of completion times by costates and an exact knapsack (docs/adr/0035). Jobs without
// a measurement are taken for jobs of 10 minutes that scale as ranks^0.7.
const ElasticPolicy& CostatePolicy();

// The sizes that a policy considers for a job: 1, 2, 4 … within a node, whole nodes beyond it, and
// the bounds of the job.
std::vector<uint32_t> SizesOf(const ElasticJob& job, uint32_t ranks_per_node, uint32_t most);

// How a job's speed depends on its ranks. Reads the job, which outlives it.
class JobCurve {
 public:
  JobCurve(const ElasticJob& job, uint32_t ranks_per_node);
  // What a second with `ranks` is worth in seconds with one rank; 0: it cannot train with so many.
  double SpeedUp(uint32_t ranks) const;
  double RemainingSeconds() const;  // With one rank.

 private:
  const ElasticJob& job_;
  const uint32_t ranks_per_node_;
  const double alone_;  // Its rate with one rank.
};

}  // namespace rt
