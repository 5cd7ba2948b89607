// The Pareto front of an experiment with several objectives: the trials that no other one beats in
// all of them. A trial counts with its newest row, unless it failed, or the row lacks an objective
// or breaks a constraint. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"

namespace rt {

class FrontTrials {
 public:
  // As `exp show` has the experiment. nullopt: it has one objective, or none.
  static std::optional<FrontTrials> Of(const Json& experiment);
  // As `trial list` has a trial.
  void Add(const Json& trial);

  bool empty() const { return trials_.empty(); }
  // The front, by the first objective, the best one first.
  std::vector<Json> Front() const;
  // The worst finite value of each objective, by its name: the reference of Hypervolume.
  Json Worst() const;
  // How much of the space between the front and Worst() is dominated. nullopt: a large front of
  // more than three objectives, whose hypervolume would take too long.
  std::optional<double> Hypervolume() const;
  // A table of the front, a column per objective and per parameter that varies in it.
  std::string Render() const;

 private:
  struct Objective {
    std::string metric;
    double sign;  // -1 where more is better.
  };
  struct Bound {
    std::string key;
    double sign, threshold;  // sign * value <= sign * threshold
  };
  std::vector<size_t> Places() const;
  std::vector<double> Reference() const;  // As Worst(), minimised.

  std::vector<Objective> objectives_;
  std::vector<Bound> bounds_;
  std::vector<Json> trials_;
  std::vector<std::vector<double>> values_;  // Minimised.
};

}  // namespace rt
