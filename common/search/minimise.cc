#include "common/search/minimise.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace rt {
namespace {

using Vector = std::vector<double>;

constexpr size_t kMemory = 8;         // Pairs of steps and changes of the gradient.
constexpr int kLineStepsMax = 12;     // Until a shorter step is not tried.
constexpr double kSufficient = 1e-4;  // Armijo's constant.
constexpr double kFirstStep = 0.5;    // The largest component of a step without curvature.
constexpr double kGainMin = 1e-7;     // Relative; a smaller gain ends the search.

struct Pair {
  Vector step, change;
};

class Lbfgs {
 public:
  Lbfgs(const SmoothFunction& function, const Box& box, const MinimiseLimits& limits, Vector& x)
      : function_(function), box_(box), limits_(limits), x_(x), gradient_(x.size()) {}

  double Run() {
    x_ = Project(x_);
    value_ = function_(x_, gradient_);
    for (int i = 0; i < limits_.iterations; ++i) {
      FindFree();
      if (LargestFree(gradient_) < limits_.gradient_min) break;
      const Step step = Direction();
      const double before = value_;
      if (Advance(step)) {
        if (before - value_ < kGainMin * (1 + std::abs(value_))) break;
      } else if (pairs_.empty()) {
        break;
      } else {
        pairs_.clear();
      }
    }
    return value_;
  }

 private:
  struct Step {
    Vector direction;  // Subtracted.
    double length = 1;
  };

  Vector Project(const Vector& x) const {
    Vector inside(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      inside[i] = std::min(std::max(x[i], box_.lower[i]), box_.upper[i]);
    return inside;
  }

  // A component is free unless the box stops it from going down.
  void FindFree() {
    free_.assign(x_.size(), 1);
    for (size_t i = 0; i < x_.size(); ++i) {
      const bool at_lower = x_[i] <= box_.lower[i] && gradient_[i] > 0;
      const bool at_upper = x_[i] >= box_.upper[i] && gradient_[i] < 0;
      if (at_lower || at_upper) free_[i] = 0;
    }
  }

  double LargestFree(const Vector& vector) const {
    double largest = 0;
    for (size_t i = 0; i < vector.size(); ++i)
      largest = std::max(largest, free_[i] * std::abs(vector[i]));
    return largest;
  }

  double FreeDot(const Vector& a, const Vector& b) const {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += free_[i] * a[i] * b[i];
    return sum;
  }

  Vector FreeOf(Vector vector) const {
    for (size_t i = 0; i < vector.size(); ++i) vector[i] *= free_[i];
    return vector;
  }

  // The two loops over the pairs, on the free components.
  Step Direction() {
    Vector q = FreeOf(gradient_);
    std::vector<double> alpha(pairs_.size(), 0);
    for (size_t i = pairs_.size(); i-- > 0;) {
      const double curvature = FreeDot(pairs_[i].step, pairs_[i].change);
      if (!(curvature > 0)) continue;
      alpha[i] = FreeDot(pairs_[i].step, q) / curvature;
      for (size_t j = 0; j < q.size(); ++j) q[j] -= free_[j] * alpha[i] * pairs_[i].change[j];
    }
    bool is_scaled = false;
    if (!pairs_.empty()) {
      const double curvature = FreeDot(pairs_.back().step, pairs_.back().change);
      const double squares = FreeDot(pairs_.back().change, pairs_.back().change);
      is_scaled = curvature > 0 && squares > 0;
      if (is_scaled)
        for (double& each : q) each *= curvature / squares;
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const double curvature = FreeDot(pairs_[i].step, pairs_[i].change);
      if (!(curvature > 0)) continue;
      const double beta = FreeDot(pairs_[i].change, q) / curvature;
      for (size_t j = 0; j < q.size(); ++j)
        q[j] += free_[j] * (alpha[i] - beta) * pairs_[i].step[j];
    }
    if (!(FreeDot(q, gradient_) > 0)) {
      q = FreeOf(gradient_);
      pairs_.clear();
      is_scaled = false;
    }
    const double largest = LargestFree(q);
    const double length = is_scaled || largest == 0 ? 1 : std::min(1.0, kFirstStep / largest);
    return {std::move(q), length};
  }

  // Goes along the projected path as far as the value falls enough. False: it does not.
  bool Advance(const Step& step) {
    double length = step.length;
    for (int i = 0; i < kLineStepsMax; ++i, length *= i < 3 ? 0.4 : 0.2) {
      Vector next = x_, next_gradient(x_.size());
      for (size_t j = 0; j < next.size(); ++j) next[j] -= length * step.direction[j];
      next = Project(next);
      const double value = function_(next, next_gradient);
      double expected = 0;
      for (size_t j = 0; j < next.size(); ++j) expected += gradient_[j] * (x_[j] - next[j]);
      if (!std::isfinite(value) || value > value_ - kSufficient * expected) continue;
      Remember(next, next_gradient);
      x_ = std::move(next);
      gradient_ = std::move(next_gradient);
      value_ = value;
      return true;
    }
    return false;
  }

  void Remember(const Vector& next, const Vector& next_gradient) {
    Pair pair{next, next_gradient};
    double product = 0, steps = 0, changes = 0;
    for (size_t i = 0; i < next.size(); ++i) {
      pair.step[i] -= x_[i];
      pair.change[i] -= gradient_[i];
      product += pair.step[i] * pair.change[i];
      steps += pair.step[i] * pair.step[i];
      changes += pair.change[i] * pair.change[i];
    }
    if (!(product > 1e-12 * std::sqrt(steps) * std::sqrt(changes))) return;
    pairs_.push_back(std::move(pair));
    if (pairs_.size() > kMemory) pairs_.pop_front();
  }

  const SmoothFunction& function_;
  const Box& box_;
  const MinimiseLimits limits_;
  Vector& x_;
  Vector gradient_;
  double value_ = 0;
  std::vector<double> free_;  // 1 or 0.
  std::deque<Pair> pairs_;
};

}  // namespace

double Minimise(const SmoothFunction& function, const Box& box, const MinimiseLimits& limits,
                Vector& x) {
  return Lbfgs(function, box, limits, x).Run();
}

}  // namespace rt
