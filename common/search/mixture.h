// A Parzen estimator: a density on the unit cube that is a weighted sum of kernels, one around each
// given point, and of a uniform kernel. A kernel is a product over the axes: a normal density that
// is cut off at 0 and 1, or probabilities of categories. The densities of TPE are two of these.
// A kernel whose point lacks an axis is uniform there, and an axis that a point lacks does not
// count in the density at that point.
//
// Pure; whoever suggests builds it for one answer and drops it; a mixture is not changed after
// `Correlate`, and any thread may read it.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/rng.h"
#include "common/search/encoding.h"

namespace rt {

// How wide kernels are, on axes that are not categories: factor * spread * n^-exponent, where n is
// the number of points and spread their weighted standard deviation on that axis.
struct KernelRule {
  double factor = 1;
  double exponent = 0.5;
  double width_min = 0.01;
  double cell_width_min = 0.5;  // In widths of the point's cell, on axes with steps.
  double uniform_weight = 0.1;  // Of the uniform kernel.
  double spread_prior = 0.3;    // The weight of the uniform variance in the spread.
  double category_prior = 1;    // The weight of each category, over the number of kernels.
};

struct WeightedPoint {
  const Point* point;  // Outlives the mixture's construction.
  double weight;       // Above 0.
};

class Mixture {
 public:
  // At least one point. `encoding` outlives the mixture. `branch`: the axes of the density, all of
  // which each point has; without it, the density is one on all configurations.
  Mixture(const Encoding& encoding, const std::vector<WeightedPoint>& points,
          const KernelRule& rule, const std::vector<bool>* branch = nullptr);

  // Lets the kernels follow a correlation of the numeric axes: a symmetric matrix by rows, with
  // ones on its diagonal, in the order of SteadyNumericAxes(). The kernels are not normalised for
  // what lies outside the cube then. False, and nothing changes, when it is not positive definite.
  bool Correlate(const std::vector<double>& correlation);
  static std::vector<size_t> NumericAxes(const Encoding& encoding);
  // Those of them that every configuration has, or every one of the branch.
  static std::vector<size_t> SteadyNumericAxes(const Encoding& encoding,
                                               const std::vector<bool>* branch = nullptr);

  // A point of the mixture with bandwidths times `spread`, snapped to the centres of cells.
  Point Draw(Rng& rng, double spread) const;
  // The logarithm of the density at a snapped point, relative to the uniform density. `scratch` is
  // working memory, so that many calls share it.
  double LogDensity(const Point& point, std::vector<double>& scratch) const;

 private:
  // One numeric axis of all kernels, without the uniform one.
  struct NumericColumn {
    size_t axis;
    std::vector<double> centre, width, inverse;  // inverse = 1 / width.
  };
  struct CategoryColumn {
    size_t axis;
    std::vector<double> centre;
    double half_width;          // Of a category's cell.
    double own;                 // The probability of a kernel's own category.
    double log_own, log_other;  // Densities relative to the uniform one.
  };

  // An axis that some configurations lack, with the kernels that have it.
  struct ConditionalColumn {
    size_t axis;
    bool is_category;
    std::vector<size_t> kernels;
    std::vector<double> cumulative;  // Their weights, normalised; the rest is the uniform kernel's.
    std::vector<double> centre, width, log_scale;                // By these kernels.
    double half_width = 0, own = 0, log_own = 0, log_other = 0;  // Of a category.
  };

  void AddConditional(size_t axis, const std::vector<WeightedPoint>& points,
                      const KernelRule& rule);
  double DrawConditional(const ConditionalColumn& column, size_t kernel, Rng& rng,
                         double spread) const;
  double CategoryNear(const Axis& axis, double centre, double own, Rng& rng) const;
  void AddConditionalLogs(const Point& point, std::vector<double>& logs) const;
  void AddNumeric(size_t axis, const std::vector<WeightedPoint>& points, const KernelRule& rule);
  void AddCategory(size_t axis, const std::vector<WeightedPoint>& points, const KernelRule& rule);
  void DrawNumeric(size_t kernel, Rng& rng, double spread, Point& point) const;
  void DrawCorrelated(size_t kernel, Rng& rng, double spread, Point& point) const;
  void AddSquares(const Point& point, std::vector<double>& squares) const;

  const Encoding* encoding_;
  size_t kernels_;
  std::vector<double> cumulative_;  // Weights, normalised; what is left to 1 is the uniform kernel.
  std::vector<double> log_weight_;  // With the normalisation of the kernel's numeric axes.
  std::vector<double> log_share_;   // Without it.
  double log_uniform_ = 0;
  std::vector<NumericColumn> numeric_;
  std::vector<CategoryColumn> categories_;
  std::vector<ConditionalColumn> conditional_;
  // Of correlated kernels: the lower triangle by rows that maps independent normal numbers to
  // distances from a kernel's centre, its inverse, and the centres mapped by that, axis by axis.
  std::vector<double> factor_, inverse_factor_;
  std::vector<std::vector<double>> mapped_;
};

}  // namespace rt
