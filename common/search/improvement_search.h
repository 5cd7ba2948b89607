// The point of a space where the expected improvement is highest, and constraints are kept: many
// candidates, of which the best few are improved along the gradient, and then cell by cell where
// axes have cells. Pure; equal to the bit on every machine; any thread.
#pragma once

#include <optional>
#include <vector>

#include "common/base/rng.h"
#include "common/search/encoding.h"
#include "common/search/gaussian_process.h"
#include "common/search/model.h"
#include "common/search/predictor.h"
#include "common/search/taken.h"

namespace rt {

// What must not be above `limit`, with a probability that the score is multiplied by. Source:
// Gardner et al., "Bayesian optimization with inequality constraints", 2014.
struct KeptConstraint {
  GaussianProcess process;
  double limit = 0;
};

struct ImprovementTask {
  const Encoding& encoding;  // At least one axis.
  const Taken& taken;
  const Predictor& process;
  double lowest = 0;  // What has to be improved.
  // The box of the search, in the cube. On categorical axes it is whole; `keeps_categories`: most
  // candidates have the categories of the best known point.
  Point lower, upper;
  bool keeps_categories = false;
  std::vector<Point> best = {};  // Known points, the best first; at least one.
  std::vector<KeptConstraint> constraints = {};
  bool only_constraints = false;  // No known point keeps them: the value does not count.
};

// Snapped. nullopt: given up. Empty: no candidate is free.
std::optional<Point> FindImprovement(const ImprovementTask& task, Rng& rng, const GiveUp& give_up);

}  // namespace rt
