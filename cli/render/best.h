// The best trials of an experiment side by side, in the manner of parallel coordinates: a column
// per parameter that varies, and in each cell where its value lies between the least and the
// greatest that any trial has. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

// Takes the trials one by one, as `trial list` has them, and keeps the best `most`.
class BestTrials {
 public:
  BestTrials(bool maximise, size_t most) : maximise_(maximise), most_(most) {}
  void Add(const Json& trial);

  const std::vector<Json>& trials() const { return best_; }  // The best one first.
  // A table, and a line with what is the same in all trials; empty when no trial has a value.
  std::string Render(const std::string& metric) const;

 private:
  struct Range {
    Json first;
    bool varies = false;
    std::optional<double> least, greatest;  // Of the numbers.
  };
  std::string Cell(const Json& params, const std::string& name, const Range& range) const;

  const bool maximise_;
  const size_t most_;
  std::vector<Json> best_;
  std::vector<std::string> names_;  // In the order of the space.
  std::map<std::string, Range> ranges_;
};

// "bracket 0, milestone 1: 9 reached it, 6 stopped, 3 continued", as a table; empty when there are
// none.
std::string RenderRungs(const Json& rungs);
// A table of the search model's predictions for the best trial and for the trial that it proposed
// last; empty: it has made none.
std::string RenderBelief(const Json& search_model, const std::string& metric);

// The ranks of an elastic experiment over time, a line with a bar for each of the newest changes.
// Empty without changes.
std::string RenderAllocation(const Json& allocation);

// The table of a population (population based training): for each trial its newest compared value
// and the trial whose checkpoint it last continued from. Empty without a population.
std::string RenderPopulation(const Json& population);

}  // namespace rt
