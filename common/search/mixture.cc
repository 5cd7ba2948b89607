#include "common/search/mixture.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/search/elementary.h"

namespace rt {
namespace {

constexpr double kLogSqrtTwoPi = 0.91893853320467274;
// Draws outside the cube before a correlated kernel's point is moved to its surface.
constexpr int kDrawsOutsideMax = 10;
// A kernel that adds less than e^-36 of the largest is below the rounding of the sum.
constexpr double kNegligible = -36;

// A normal distribution's mass in [0, 1]; most kernels are so narrow that it needs no exponential.
double MassInside(double centre, double inverse) {
  constexpr double kAll = 8.3;  // NormalCdf is 1 from here on.
  const double below = centre * inverse, above = (1 - centre) * inverse;
  const double left = below > kAll ? 0 : NormalCdf(-below);
  const double right = above > kAll ? 0 : NormalCdf(-above);
  return 1 - left - right;
}

double TruncatedNormal(double centre, double width, double uniform) {
  const double low = NormalCdf(-centre / width), high = NormalCdf((1 - centre) / width);
  const double value = centre + width * NormalQuantile(low + (high - low) * uniform);
  return std::clamp(value, 0.0, 1.0);
}

// The standard deviation of the points on an axis, drawn towards that of a uniform variable.
double Spread(size_t axis, const std::vector<WeightedPoint>& points, double prior) {
  double weight = 0, squares = 0, mean = 0, variance = 0;
  for (const WeightedPoint& at : points) {
    weight += at.weight;
    squares += at.weight * at.weight;
    mean += at.weight * (*at.point)[axis];
  }
  mean /= weight;
  for (const WeightedPoint& at : points) {
    const double distance = (*at.point)[axis] - mean;
    variance += at.weight * distance * distance;
  }
  const double effective = weight * weight / squares;
  return std::sqrt((effective * variance / weight + prior / 12) / (effective + prior));
}

// The lower triangle L with L L' = matrix, by rows. False: not positive definite.
bool Cholesky(const std::vector<double>& matrix, size_t n, std::vector<double>& lower) {
  lower.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double rest = matrix[i * n + j];
      for (size_t k = 0; k < j; ++k) rest -= lower[i * n + k] * lower[j * n + k];
      if (i == j && !(rest > 1e-6)) return false;
      lower[i * n + j] = i == j ? std::sqrt(rest) : rest / lower[j * n + j];
    }
  }
  return true;
}

std::vector<double> InverseOfLower(const std::vector<double>& lower, size_t n) {
  std::vector<double> inverse(n * n, 0);
  for (size_t j = 0; j < n; ++j) {
    inverse[j * n + j] = 1 / lower[j * n + j];
    for (size_t i = j + 1; i < n; ++i) {
      double sum = 0;
      for (size_t k = j; k < i; ++k) sum += lower[i * n + k] * inverse[k * n + j];
      inverse[i * n + j] = -sum / lower[i * n + i];
    }
  }
  return inverse;
}

}  // namespace

Mixture::Mixture(const Encoding& encoding, const std::vector<WeightedPoint>& points,
                 const KernelRule& rule, const std::vector<bool>* branch)
    : encoding_(&encoding), kernels_(points.size()) {
  RT_CHECK(!points.empty());
  double total = rule.uniform_weight;
  for (const WeightedPoint& at : points) total += at.weight;
  double sum = 0;
  for (const WeightedPoint& at : points) {
    sum += at.weight / total;
    cumulative_.push_back(sum);
    log_share_.push_back(Log(at.weight / total));
  }
  log_uniform_ = Log(rule.uniform_weight / total);
  log_weight_ = log_share_;
  const std::vector<Axis>& axes = encoding.axes();
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (branch != nullptr && !(*branch)[axis]) continue;
    if (branch == nullptr && encoding.IsConditional(axis)) AddConditional(axis, points, rule);
    else if (axes[axis].kind() == Axis::Kind::kCategories) AddCategory(axis, points, rule);
    else AddNumeric(axis, points, rule);
  }
}

void Mixture::AddNumeric(size_t axis, const std::vector<WeightedPoint>& points,
                         const KernelRule& rule) {
  const Axis& steps = encoding_->axes()[axis];
  const double n = static_cast<double>(points.size());
  const double width =
      rule.factor * Exp(-rule.exponent * Log(n)) * Spread(axis, points, rule.spread_prior);
  NumericColumn column{axis, {}, {}, {}};
  for (size_t i = 0; i < kernels_; ++i) {
    const double centre = (*points[i].point)[axis];
    double least = rule.width_min;
    if (steps.kind() == Axis::Kind::kSteps)
      least = std::max(least, rule.cell_width_min * steps.Width(steps.CellOf(centre)));
    column.centre.push_back(centre);
    column.width.push_back(std::clamp(width, std::min(least, 1.0), 1.0));
    column.inverse.push_back(1 / column.width.back());
    log_weight_[i] +=
        Log(column.inverse[i] / MassInside(centre, column.inverse[i])) - kLogSqrtTwoPi;
  }
  numeric_.push_back(std::move(column));
}

void Mixture::AddCategory(size_t axis, const std::vector<WeightedPoint>& points,
                          const KernelRule& rule) {
  const double count = static_cast<double>(encoding_->axes()[axis].count());
  const double each = rule.category_prior / static_cast<double>(kernels_ + 1);
  const double total = 1 + count * each;
  CategoryColumn column{axis, {}, 0.5 / count, (1 + each) / total, 0, 0};
  column.log_own = Log(column.own * count);
  column.log_other = Log(each / total * count);
  for (const WeightedPoint& at : points) column.centre.push_back((*at.point)[axis]);
  categories_.push_back(std::move(column));
}

void Mixture::AddConditional(size_t axis, const std::vector<WeightedPoint>& points,
                             const KernelRule& rule) {
  const Axis& of = encoding_->axes()[axis];
  ConditionalColumn column{axis, of.kind() == Axis::Kind::kCategories, {}, {}, {}, {}, {}};
  std::vector<WeightedPoint> having;
  double total = rule.uniform_weight, sum = 0;
  for (size_t i = 0; i < kernels_; ++i) {
    if (!encoding_->Exists(axis, *points[i].point)) continue;
    column.kernels.push_back(i);
    column.centre.push_back((*points[i].point)[axis]);
    having.push_back(points[i]);
    total += points[i].weight;
  }
  for (const WeightedPoint& at : having) column.cumulative.push_back(sum += at.weight / total);
  if (column.is_category) {
    const double count = static_cast<double>(of.count());
    const double each = rule.category_prior / static_cast<double>(having.size() + 1);
    column.half_width = 0.5 / count;
    column.own = (1 + each) / (1 + count * each);
    column.log_own = Log(column.own * count);
    column.log_other = Log(each / (1 + count * each) * count);
  } else if (!having.empty()) {
    const double width = rule.factor *
                         Exp(-rule.exponent * Log(static_cast<double>(having.size()))) *
                         Spread(axis, having, rule.spread_prior);
    for (const double centre : column.centre) {
      double least = rule.width_min;
      if (of.kind() == Axis::Kind::kSteps)
        least = std::max(least, rule.cell_width_min * of.Width(of.CellOf(centre)));
      column.width.push_back(std::clamp(width, std::min(least, 1.0), 1.0));
      const double inverse = 1 / column.width.back();
      column.log_scale.push_back(Log(inverse / MassInside(centre, inverse)) - kLogSqrtTwoPi);
    }
  }
  conditional_.push_back(std::move(column));
}

std::vector<size_t> Mixture::SteadyNumericAxes(const Encoding& encoding,
                                               const std::vector<bool>* branch) {
  std::vector<size_t> numeric = NumericAxes(encoding);
  std::erase_if(numeric, [&](size_t axis) {
    return branch != nullptr ? !(*branch)[axis] : encoding.IsConditional(axis);
  });
  return numeric;
}

std::vector<size_t> Mixture::NumericAxes(const Encoding& encoding) {
  std::vector<size_t> numeric;
  for (size_t axis = 0; axis < encoding.axes().size(); ++axis)
    if (encoding.axes()[axis].kind() != Axis::Kind::kCategories) numeric.push_back(axis);
  return numeric;
}

bool Mixture::Correlate(const std::vector<double>& correlation) {
  const size_t n = numeric_.size();
  RT_CHECK(correlation.size() == n * n);
  std::vector<double> factor;
  if (n == 0 || !Cholesky(correlation, n, factor)) return false;
  double log_volume = static_cast<double>(n) * kLogSqrtTwoPi;
  for (size_t a = 0; a < n; ++a) {
    double width = 0;  // One width for all kernels; they differ only by the widths of cells.
    for (double each : numeric_[a].width) width += each / static_cast<double>(kernels_);
    for (size_t b = 0; b <= a; ++b) factor[a * n + b] *= width;
    log_volume += Log(factor[a * n + a]);
  }
  factor_ = std::move(factor);
  inverse_factor_ = InverseOfLower(factor_, n);
  mapped_.assign(n, std::vector<double>(kernels_, 0));
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b <= a; ++b)
      for (size_t i = 0; i < kernels_; ++i)
        mapped_[a][i] += inverse_factor_[a * n + b] * numeric_[b].centre[i];
  for (size_t i = 0; i < kernels_; ++i) log_weight_[i] = log_share_[i] - log_volume;
  return true;
}

void Mixture::DrawNumeric(size_t kernel, Rng& rng, double spread, Point& point) const {
  for (const NumericColumn& column : numeric_)
    point[column.axis] =
        TruncatedNormal(column.centre[kernel], column.width[kernel] * spread, rng.Uniform());
}

void Mixture::DrawCorrelated(size_t kernel, Rng& rng, double spread, Point& point) const {
  const size_t n = numeric_.size();
  std::vector<double> normal(n);
  for (int draw = 0; draw < kDrawsOutsideMax; ++draw) {
    for (double& each : normal) each = spread * NormalQuantile(rng.Uniform());
    bool inside = true;
    for (size_t a = 0; a < n; ++a) {
      double value = numeric_[a].centre[kernel];
      for (size_t b = 0; b <= a; ++b) value += factor_[a * n + b] * normal[b];
      inside = inside && value >= 0 && value <= 1;
      point[numeric_[a].axis] = std::clamp(value, 0.0, 1.0);
    }
    if (inside) return;
  }
}

double Mixture::CategoryNear(const Axis& axis, double centre, double own, Rng& rng) const {
  const uint64_t cell = axis.CellOf(centre);
  if (rng.Chance(own)) return axis.Centre(cell);
  const uint64_t other = rng.Below(axis.count() - 1);
  return axis.Centre(other < cell ? other : other + 1);
}

// The kernel's own coordinate where it has one, that of another kernel otherwise.
double Mixture::DrawConditional(const ConditionalColumn& column, size_t kernel, Rng& rng,
                                double spread) const {
  const auto own = std::find(column.kernels.begin(), column.kernels.end(), kernel);
  size_t from = static_cast<size_t>(own - column.kernels.begin());
  if (own == column.kernels.end()) {
    const auto above =
        std::upper_bound(column.cumulative.begin(), column.cumulative.end(), rng.Uniform());
    from = static_cast<size_t>(above - column.cumulative.begin());
  }
  if (from >= column.kernels.size()) return rng.Uniform();
  if (column.is_category)
    return CategoryNear(encoding_->axes()[column.axis], column.centre[from], column.own, rng);
  return TruncatedNormal(column.centre[from], column.width[from] * spread, rng.Uniform());
}

Point Mixture::Draw(Rng& rng, double spread) const {
  const auto above = std::upper_bound(cumulative_.begin(), cumulative_.end(), rng.Uniform());
  const size_t kernel = static_cast<size_t>(above - cumulative_.begin());
  Point point(encoding_->axes().size());
  if (kernel == kernels_) {
    for (double& coordinate : point) coordinate = rng.Uniform();
    return encoding_->Snap(std::move(point));
  }
  if (factor_.empty()) DrawNumeric(kernel, rng, spread, point);
  else DrawCorrelated(kernel, rng, spread, point);
  for (const CategoryColumn& column : categories_) {
    const Axis& axis = encoding_->axes()[column.axis];
    point[column.axis] = CategoryNear(axis, column.centre[kernel], column.own, rng);
  }
  for (const ConditionalColumn& column : conditional_)
    if (encoding_->Exists(column.axis, point))
      point[column.axis] = DrawConditional(column, kernel, rng, spread);
  return encoding_->Snap(std::move(point));
}

// Adds the squared distances from the kernels on the numeric axes, in bandwidths.
void Mixture::AddSquares(const Point& point, std::vector<double>& squares) const {
  const size_t n = numeric_.size();
  for (size_t a = 0; a < n; ++a) {
    const double* centre = numeric_[a].centre.data();
    if (factor_.empty()) {
      const double x = point[numeric_[a].axis];
      const double* inverse = numeric_[a].inverse.data();
      for (size_t i = 0; i < kernels_; ++i) {
        const double z = (x - centre[i]) * inverse[i];
        squares[i] += z * z;
      }
      continue;
    }
    double x = 0;
    for (size_t b = 0; b <= a; ++b) x += inverse_factor_[a * n + b] * point[numeric_[b].axis];
    for (size_t i = 0; i < kernels_; ++i) {
      const double z = x - mapped_[a][i];
      squares[i] += z * z;
    }
  }
}

void Mixture::AddConditionalLogs(const Point& point, std::vector<double>& logs) const {
  for (const ConditionalColumn& column : conditional_) {
    if (!encoding_->Exists(column.axis, point)) continue;
    const double x = point[column.axis];
    for (size_t i = 0; i < column.kernels.size(); ++i) {
      double& log = logs[column.kernels[i]];
      if (column.is_category) {
        log +=
            std::abs(x - column.centre[i]) < column.half_width ? column.log_own : column.log_other;
      } else {
        const double z = (x - column.centre[i]) / column.width[i];
        log += column.log_scale[i] - 0.5 * z * z;
      }
    }
  }
}

double Mixture::LogDensity(const Point& point, std::vector<double>& scratch) const {
  scratch.assign(kernels_, 0);
  AddSquares(point, scratch);
  for (size_t i = 0; i < kernels_; ++i) scratch[i] = log_weight_[i] - 0.5 * scratch[i];
  for (const CategoryColumn& column : categories_) {
    const double x = point[column.axis];
    for (size_t i = 0; i < kernels_; ++i)
      scratch[i] +=
          std::abs(x - column.centre[i]) < column.half_width ? column.log_own : column.log_other;
  }
  if (!conditional_.empty()) AddConditionalLogs(point, scratch);
  double largest = log_uniform_;
  for (size_t i = 0; i < kernels_; ++i) largest = std::max(largest, scratch[i]);
  double sum = Exp(log_uniform_ - largest);
  for (size_t i = 0; i < kernels_; ++i)
    if (scratch[i] - largest > kNegligible) sum += Exp(scratch[i] - largest);
  return largest + Log(sum);
}

}  // namespace rt
