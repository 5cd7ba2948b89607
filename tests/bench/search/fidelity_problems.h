// Problems whose values can be had cheaply and badly, or dearly and well, for comparisons of
// searches with rungs. Minimised, with a known minimum.
//
// MF-Hartmann: the Hartmann functions with a bias and noise that vanish with the logarithm of the
// training time, in the classes "good" and "terrible" of Mallik et al., "PriorBand", 2023.
// Counting ones: Falkner et al., "BOHB", 2018. Pure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/rng.h"

namespace rt::bench {

// Values of one configuration as it trains on, one per unit of time.
class Curve {
 public:
  virtual ~Curve() = default;
  virtual double Next() = 0;
};

struct FidelityProblem {
  std::string name;
  std::string space;   // JSON.
  double units = 81;   // The training time of a whole training.
  double minimum = 0;  // Of `truth`.
  // Where a search ends; its time is what is compared, and there is no `truth`.
  std::optional<double> target = {};
  // The value at the end of training, without noise.
  std::function<double(const std::vector<double>& x)> truth;
  std::function<std::unique_ptr<Curve>(const std::vector<double>& x, Rng rng)> train;
};

const std::vector<FidelityProblem>& FidelityProblems();

// The parameters in the order of the space.
std::vector<double> ValuesOf(const Json& params);

}  // namespace rt::bench
