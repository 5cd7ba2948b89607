// What a second of a job's work is worth to all jobs together, when the sum of their completion
// times is to be small: the costate of the job in the optimal control problem "give each job ranks
// so that the mean completion time is least". For jobs whose speed is a power of their ranks this
// gives the weights of heSRPT (Berg, Vesilo and Harchol-Balter, "heSRPT: Parallel scheduling to
// minimize mean slowdown", Performance Evaluation 2020); docs/adr/0035. Pure; equal to the bit for
// equal jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rt {

// A straight part of a concave curve of speed over ranks: so many units of capacity, and what they
// add to the speed.
struct SpeedSegment {
  double units = 0;
  double speed = 0;
};
// The least concave curve from (0, 0) through and above (units, speed), units ascending. Points
// with a speed of 0 or less do not count.
std::vector<SpeedSegment> ConcaveHull(const std::vector<std::pair<double, double>>& points);

struct CostateJob {
  double work_s = 0;  // Remaining, with one rank (at speed 1).
  std::vector<SpeedSegment> hull;
};

// The costates of the jobs for `capacity` units, all above 0, for the order in which a fluid
// schedule would complete them.
std::vector<double> Costates(const std::vector<CostateJob>& jobs, double capacity);

// The two halves, for tests. `order` begins with the job that completes last: the costates p make
// max { sum of p_j * speed_j over the first i jobs } = i for every i. `starts`: costates near which
// they are looked for; none: anywhere.
std::vector<double> CostatesInOrder(const std::vector<CostateJob>& jobs,
                                    const std::vector<size_t>& order, double capacity,
                                    const std::vector<double>& starts = {});
// When the jobs complete if each instant maximises the sum of weight * speed.
std::vector<double> FluidCompletions(const std::vector<CostateJob>& jobs,
                                     const std::vector<double>& weights, double capacity);

}  // namespace rt
