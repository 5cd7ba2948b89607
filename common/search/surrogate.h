// A model of the values round the mean of an evolution strategy: a Gaussian process on the nearest
// evaluated points, in the coordinates in which the strategy's distribution is a ball. It ranks
// points that were not evaluated, and says which of them promises most.
//
// The values pass through t = c ln(1 + u / c) first, u = (value - least) / (median - least), so
// that large ones do not hide the differences between small ones; c is the one with the highest
// posterior density. Affine changes of the values change nothing. Sources: docs/search-quality.md,
// Jones et al., "Efficient global optimization of expensive black-box functions", 1998 (expected
// improvement). Pure; equal to the bit on every machine; one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "common/search/evolution.h"
#include "common/search/gaussian_process.h"

namespace rt {

// A value that is not finite counts as the worst that is known.
struct EvaluatedPoint {
  Point point;
  double value = 0;
};

class Surrogate {
 public:
  explicit Surrogate(size_t axes);

  // Fits the parameters to the points nearest to the distribution's mean; `evaluated` is what was
  // evaluated so far, and grows from one call to the next. False: given up, and the model is of no
  // use, or there is no finite value among these points.
  bool Fit(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated,
           const GiveUp& give_up);
  // As Fit, with the parameters that it has. Points of `in_flight` count as if they had the value
  // that the model expects of them (Ginsbourger et al., "Kriging is well-suited to parallelize
  // optimization", 2010).
  bool Condition(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated,
                 const std::vector<Point>& in_flight);

  // The expected value, in units of its own: only the order counts.
  double MeanAt(const Point& point) const;
  // The logarithm of how much lower than the lowest known value this point is expected to be.
  double LogImprovementAt(const Point& point) const;

 private:
  std::vector<double> Local(const Point& point) const;
  // The nearest points; false: none of them has a finite value.
  bool Gather(const Evolution& around, const std::vector<EvaluatedPoint>& evaluated);
  // The loss of the best of these scales, with its process.
  bool Select(size_t evaluated, const GiveUp& give_up);
  void FindLowest(size_t count);

  size_t axes_;
  Evolution around_;
  GaussianProcess process_;
  GaussianData data_;         // Local coordinates, and the values as they are.
  double log_scale_;          // ln c; infinite: the values pass unchanged.
  bool is_selected_ = false;  // A scale was selected once,
  size_t selected_at_ = 0;    // with so many evaluated points.
  double lowest_ = 0;         // The least posterior mean at an evaluated point.
};

}  // namespace rt
