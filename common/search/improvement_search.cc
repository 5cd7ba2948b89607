#include "common/search/improvement_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/search/elementary.h"
#include "common/search/improvement.h"
#include "common/search/minimise.h"
#include "common/search/mixture.h"
#include "common/search/sobol.h"

namespace rt {
namespace {

// Even candidates: so many, more for each axis, and at most.
constexpr size_t kEven = 400, kEvenPerAxis = 50, kEvenMax = 2400;
// Candidates near the best known points: at these distances, in units of the process's lengths.
constexpr double kDistances[] = {0.5, 0.2, 0.05, 0.01};
constexpr size_t kNearBest = 10, kNearOthers = 4;
constexpr double kMovedAxes = 3, kMovedPartMin = 0.3;  // Every second moves about three axes.
// Of candidates in a box: those that keep the categories of the best.
constexpr double kKept = 0.7;
// Candidates that are improved, and how far apart they are.
constexpr size_t kStarts = 5;
constexpr double kApart = 0.01;
constexpr int kSteps = 30;
constexpr double kSlopeMin = 1e-5;
constexpr double kLongestScale = 0.5;
constexpr int kCellRounds = 3;
constexpr uint64_t kCategoriesMax = 16;  // That are tried on an axis.

struct ScoredPoint {
  double score;
  Point point;
};

class ImprovementSearch {
 public:
  ImprovementSearch(const ImprovementTask& task, Rng& rng, const GiveUp& give_up)
      : task_(task), rng_(rng), give_up_(give_up), axes_(task.encoding.axes()),
        numeric_(Mixture::NumericAxes(task.encoding)) {
    for (const double length : task.process.LogLengths()) {
      lengths_.push_back(Exp(length));
      scales_.push_back(std::min(kLongestScale, lengths_.back()));
    }
  }

  std::optional<Point> Find() {
    if (!AddEven() || !AddNearBest()) return std::nullopt;
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const ScoredPoint& a, const ScoredPoint& b) { return a.score > b.score; });
    ScoredPoint best{-HUGE_VAL, {}};
    if (!candidates_.empty()) best = candidates_.front();
    for (const Point& start : Starts()) {
      if (IsOver()) return std::nullopt;
      Point improved = Improve(start);
      if (task_.taken.Has(improved)) continue;
      const double score = ScoreOf(improved);
      if (score > best.score) best = {score, std::move(improved)};
    }
    for (int round = 0; round < kCellRounds && ImproveCells(best); ++round)
      if (IsOver()) return std::nullopt;
    if (IsOver()) return std::nullopt;  // What was given up midway is no answer.
    return std::move(best.point);
  }

 private:
  bool IsOver() const { return give_up_ && give_up_(); }

  double ScoreOf(const Point& point) const {
    double score = 0;
    for (const KeptConstraint& each : task_.constraints) {
      const GaussianProcess::Prediction at = each.process.At(point);
      score += ChanceAt((each.limit - at.mean) / std::sqrt(at.variance)).logarithm;
    }
    if (task_.only_constraints) return score;
    const GaussianProcess::Prediction at = task_.process.At(point);
    const double deviation = std::sqrt(at.variance);
    return score + HopeAt((task_.lowest - at.mean) / deviation).logarithm + Log(deviation);
  }

  void Add(Point point) {
    point = task_.encoding.Snap(std::move(point));
    if (task_.taken.Has(point)) return;
    const double score = ScoreOf(point);
    candidates_.push_back({score, std::move(point)});
  }

  bool AddEven() {
    const size_t count = std::min(kEven + kEvenPerAxis * axes_.size(), kEvenMax);
    const uint64_t seed = rng_.Next();
    for (size_t i = 0; i < count; ++i) {
      if (IsOver()) return false;
      Point point = ScrambledSobol(seed, i, axes_.size());
      for (size_t k = 0; k < axes_.size(); ++k) {
        if (axes_[k].kind() != Axis::Kind::kCategories)
          point[k] = task_.lower[k] + point[k] * (task_.upper[k] - task_.lower[k]);
        else if (task_.keeps_categories)
          point[k] = point[k] < kKept ? task_.best.front()[k] : (point[k] - kKept) / (1 - kKept);
      }
      Add(std::move(point));
    }
    return true;
  }

  bool AddNearBest() {
    const double part =
        std::clamp(kMovedAxes / static_cast<double>(axes_.size()), kMovedPartMin, 1.0);
    for (const Point& known : task_.best) {
      const size_t count = &known == &task_.best.front() ? kNearBest : kNearOthers;
      for (const double distance : kDistances) {
        for (size_t i = 0; i < count; ++i) {
          if (IsOver()) return false;
          Add(Near(known, distance, i % 2 == 0 ? 1 : part));
        }
      }
    }
    return true;
  }

  // A point near another; each axis moves with the probability `part`.
  Point Near(const Point& known, double distance, double part) {
    Point point = known;
    for (const size_t k : numeric_) {
      if (part < 1 && !rng_.Chance(part)) continue;
      const double moved = distance * std::min(1.0, lengths_[k]);
      const double coordinate = known[k] + moved * NormalQuantile(rng_.Uniform());
      point[k] = std::clamp(coordinate, task_.lower[k], task_.upper[k]);
    }
    return point;
  }

  // The best candidates that are apart from each other.
  std::vector<Point> Starts() const {
    std::vector<Point> starts;
    const double apart = kApart * static_cast<double>(axes_.size());
    for (const ScoredPoint& candidate : candidates_) {
      if (starts.size() == kStarts) break;
      const auto is_near = [&](const Point& start) {
        return Distance(start, candidate.point) < apart;
      };
      if (std::none_of(starts.begin(), starts.end(), is_near)) starts.push_back(candidate.point);
    }
    return starts;
  }

  // Squared, in units of the lengths.
  double Distance(const Point& a, const Point& b) const {
    double sum = 0;
    for (size_t k = 0; k < axes_.size(); ++k) {
      const double z = (a[k] - b[k]) / std::min(1.0, lengths_[k]);
      sum += z * z;
    }
    return sum;
  }

  // Minus the logarithm of the probability that all are kept, with its slopes.
  double LossOfConstraints(const Point& point, std::vector<double>& gradient) const {
    std::fill(gradient.begin(), gradient.end(), 0.0);
    GaussianProcess::Slopes slopes;
    double loss = 0;
    for (const KeptConstraint& each : task_.constraints) {
      const GaussianProcess::Prediction at = each.process.At(point, slopes);
      const double deviation = std::sqrt(at.variance), z = (each.limit - at.mean) / deviation;
      const Chance chance = ChanceAt(z);
      loss -= chance.logarithm;
      for (size_t i = 0; i < numeric_.size(); ++i) {
        const size_t k = numeric_[i];
        gradient[i] += scales_[k] * chance.slope *
                       (slopes.mean[k] / deviation + z * slopes.variance[k] / (2 * at.variance));
      }
    }
    return loss;
  }

  // The top of the hill, along the numeric axes, which count as real here.
  Point Improve(const Point& start) const {
    if (numeric_.empty()) return start;
    Point point = start;
    GaussianProcess::Slopes slopes;
    const SmoothFunction loss = [&](const std::vector<double>& x, std::vector<double>& gradient) {
      if (IsOver()) return HUGE_VAL;
      for (size_t i = 0; i < numeric_.size(); ++i) point[numeric_[i]] = x[i] * scales_[numeric_[i]];
      const double kept = LossOfConstraints(point, gradient);
      if (task_.only_constraints) return kept;
      const GaussianProcess::Prediction at = task_.process.At(point, slopes);
      const double deviation = std::sqrt(at.variance);
      const Hope hope = HopeAt((task_.lowest - at.mean) / deviation);
      for (size_t i = 0; i < numeric_.size(); ++i) {
        const size_t k = numeric_[i];
        gradient[i] += scales_[k] * (hope.mass / deviation * slopes.mean[k] -
                                     hope.density / (2 * at.variance) * slopes.variance[k]);
      }
      return kept - (hope.logarithm + Log(deviation));
    };
    Box box;
    std::vector<double> x;
    for (const size_t k : numeric_) {
      const bool exists = task_.encoding.Exists(k, start);
      box.lower.push_back((exists ? task_.lower[k] : start[k]) / scales_[k]);
      box.upper.push_back((exists ? task_.upper[k] : start[k]) / scales_[k]);
      x.push_back(start[k] / scales_[k]);
    }
    Minimise(loss, box, {.iterations = kSteps, .gradient_min = kSlopeMin}, x);
    for (size_t i = 0; i < numeric_.size(); ++i)
      point[numeric_[i]] = std::clamp(x[i] * scales_[numeric_[i]], 0.0, 1.0);
    return task_.encoding.Snap(std::move(point));
  }

  // Cells of an axis that may be better than the point's own.
  std::vector<uint64_t> OtherCells(const Axis& axis, double coordinate) {
    const uint64_t own = axis.CellOf(coordinate);
    std::vector<uint64_t> cells;
    if (axis.kind() == Axis::Kind::kSteps) {
      if (own > 0) cells.push_back(own - 1);
      if (own + 1 < axis.count()) cells.push_back(own + 1);
    } else if (axis.count() <= kCategoriesMax + 1) {
      for (uint64_t cell = 0; cell < axis.count(); ++cell)
        if (cell != own) cells.push_back(cell);
    } else {
      for (uint64_t i = 0; i < kCategoriesMax; ++i) cells.push_back(rng_.Below(axis.count()));
    }
    return cells;
  }

  // Moves to better cells, an axis at a time; false: there are none.
  bool ImproveCells(ScoredPoint& best) {
    if (best.point.empty()) return false;
    bool is_better = false;
    for (size_t k = 0; k < axes_.size(); ++k) {
      if (axes_[k].kind() == Axis::Kind::kReal) continue;
      for (const uint64_t cell : OtherCells(axes_[k], best.point[k])) {
        Point point = best.point;
        point[k] = axes_[k].Centre(cell);
        if (task_.encoding.HasConditions()) point = task_.encoding.Snap(std::move(point));
        if (task_.taken.Has(point)) continue;
        const double score = ScoreOf(point);
        if (score <= best.score) continue;
        best = {score, std::move(point)};
        is_better = true;
      }
    }
    return is_better;
  }

  const ImprovementTask& task_;
  Rng& rng_;
  const GiveUp& give_up_;
  const std::vector<Axis>& axes_;
  const std::vector<size_t> numeric_;
  std::vector<double> lengths_, scales_;
  std::vector<ScoredPoint> candidates_;
};

}  // namespace

std::optional<Point> FindImprovement(const ImprovementTask& task, Rng& rng, const GiveUp& give_up) {
  return ImprovementSearch(task, rng, give_up).Find();
}

}  // namespace rt
