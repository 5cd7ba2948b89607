// What a model is told: the finished trials and those in flight, as points of the unit cube. Values
// are minimised; whoever maximises negates them before. Every model's answer is a function of this,
// the seed, the trial's number and its options, and does not depend on the order of the lists.
#pragma once

#include <cstdint>
#include <vector>

#include "common/search/encoding.h"
#include "common/search/model.h"

namespace rt {

struct FinishedTrial {
  uint64_t number = 0;  // Different for each trial.
  Point point;          // As Encoding::Encode gives it.
  // The objective. Not finite: the trial failed because of its configuration, as with a NaN loss or
  // when it ran out of memory, and its point counts as bad. Trials that machines ended are left
  // out.
  double value = 0;
  int64_t ended_at = 0;  // Orders the trials, with the number; in any unit.
  // Of several objectives, or with constraints: what was observed, minimised, and by how much the
  // constraints are exceeded, 0 where they are kept. `value` is a place in the order of the trials
  // then, which all that compare by order can use.
  std::vector<double> values = {};
  double violation = 0;
  std::vector<double> excesses = {};  // Of each constraint; not above 0 where it is kept.
  std::vector<RungResult> rungs = {};  // Minimised, by milestone; of models that read rungs.
};

struct FlyingTrial {
  uint64_t number = 0;
  Point point;
  std::vector<RungResult> rungs = {};  // As above: what it has reached so far.
};

struct Observations {
  std::vector<FinishedTrial> finished;
  std::vector<FlyingTrial> in_flight;
};

// Reports whether value `a` is better than `b`: a value that is not finite is worse than all
// others.
bool IsBetterValue(double a, double b);

// The finished trials in the order of their ends, those of one time by number.
std::vector<const FinishedTrial*> ByEnd(const Observations& seen);

}  // namespace rt
