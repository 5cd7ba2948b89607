#include "common/elastic/costates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rt {
namespace {

constexpr int kRefinements = 2;   // Of the order, by the fluid schedule.
constexpr int kNewtonSteps = 90;  // With up to 60 doublings before them.
constexpr double kCostateMin = 1e-12;
constexpr double kPrecision = 1e-9;

// A segment with its price: what a unit of capacity adds to the sum of costate * speed.
struct Priced {
  double price = 0;
  double units = 0;
};

// The segments of the jobs before, dearest first, as far as the capacity lasts, and what they give
// together.
class PriceList {
 public:
  explicit PriceList(double capacity) : capacity_(capacity), units_(1, 0), values_(1, 0) {}

  // The largest sum of price * units when a job with these segments, at `costate`, competes for the
  // capacity; and the job's own speed then, which is the derivative.
  struct Value {
    double total = 0, own_speed = 0;
  };
  Value With(const std::vector<SpeedSegment>& hull, double costate) const {
    Value value;
    double own = 0;
    for (const SpeedSegment& segment : hull) {
      const double each = segment.speed / segment.units;
      const double left = capacity_ - own - units_[Dearer(costate * each)];
      if (left <= 0) break;
      const double taken = std::min(left, segment.units);
      own += taken;
      value.own_speed += taken * each;
      if (taken < segment.units) break;
    }
    value.total = costate * value.own_speed + Best(capacity_ - own);
    return value;
  }

  void Add(const std::vector<SpeedSegment>& hull, double costate) {
    size_t first = list_.size();
    for (const SpeedSegment& segment : hull) {
      const double price = costate * segment.speed / segment.units;
      const size_t place = Dearer(price);
      first = std::min(first, place);
      list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(place),
                   Priced{price, segment.units});
    }
    Sum(first);
  }

 private:
  // How many of the list cost more.
  size_t Dearer(double price) const {
    return static_cast<size_t>(
        std::partition_point(list_.begin(), list_.end(),
                             [&](const Priced& one) { return one.price > price; }) -
        list_.begin());
  }
  double Best(double units) const {
    const auto end = std::upper_bound(units_.begin(), units_.end(), units);
    const auto whole = static_cast<size_t>(end - units_.begin()) - 1;
    if (whole == list_.size()) return values_[whole];
    return values_[whole] + (units - units_[whole]) * list_[whole].price;
  }
  // Again from the first place on that changed. What is beyond the capacity can never be used
  // again.
  void Sum(size_t first) {
    units_.resize(first + 1);
    values_.resize(first + 1);
    for (size_t i = first; i < list_.size(); ++i) {
      if (units_.back() >= capacity_) {
        list_.resize(i);
        break;
      }
      units_.push_back(units_.back() + list_[i].units);
      values_.push_back(values_.back() + list_[i].units * list_[i].price);
    }
  }

  const double capacity_;
  std::vector<Priced> list_;
  std::vector<double> units_, values_;  // Of the first so many of the list.
};

// Where the value is `wanted`: it is convex and grows with the costate, so Newton's steps lead
// there from every start at which the job gets something.
double SolveCostate(const PriceList& prices, const std::vector<SpeedSegment>& hull, double wanted,
                    double start) {
  double costate = std::max(start, kCostateMin);
  for (int i = 0; i < kNewtonSteps; ++i) {
    const PriceList::Value value = prices.With(hull, costate);
    if (value.own_speed <= 0) {
      costate *= 2;
      continue;
    }
    const double next = costate - (value.total - wanted) / value.own_speed;
    const bool is_done = std::abs(next - costate) < kPrecision * costate;
    costate = next;
    if (is_done) break;
  }
  return costate;
}

// The fluid schedule: between two completions every job has a constant speed.
class Fluid {
 public:
  Fluid(const std::vector<CostateJob>& jobs, const std::vector<double>& weights, double capacity)
      : jobs_(jobs), capacity_(capacity), is_open_(jobs.size(), false), ends_(jobs.size(), 0) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      work_.push_back(jobs[i].work_s);
      if (jobs[i].work_s <= 0 || jobs[i].hull.empty()) continue;
      is_open_[i] = true;
      ++open_;
      for (const SpeedSegment& segment : jobs[i].hull)
        list_.push_back({weights[i] * segment.speed / segment.units, segment, i});
    }
    std::stable_sort(list_.begin(), list_.end(),
                     [](const Part& a, const Part& b) { return a.price > b.price; });
    speeds_.assign(jobs.size(), 0);
  }

  std::vector<double> Run() {
    while (open_ > 0) {
      Share();
      double step = std::numeric_limits<double>::infinity();
      for (size_t i : running_) step = std::min(step, work_[i] / speeds_[i]);
      now_ += step;
      for (size_t i : running_) Advance(i, step);
    }
    return std::move(ends_);
  }

 private:
  struct Part {
    double price = 0;
    SpeedSegment segment;
    size_t job = 0;
  };

  // Gives the capacity to the dearest parts, and forgets those of completed jobs on the way.
  void Share() {
    for (size_t i : running_) speeds_[i] = 0;
    running_.clear();
    double left = capacity_;
    size_t kept = 0, read = 0;
    for (; read < list_.size() && left > 0; ++read) {
      const Part part = list_[read];
      if (!is_open_[part.job]) continue;
      list_[kept++] = part;
      const double taken = std::min(left, part.segment.units);
      if (speeds_[part.job] == 0) running_.push_back(part.job);
      speeds_[part.job] += taken * part.segment.speed / part.segment.units;
      left -= taken;
    }
    if (kept != read)
      list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(kept),
                  list_.begin() + static_cast<std::ptrdiff_t>(read));
  }

  void Advance(size_t job, double step) {
    work_[job] -= speeds_[job] * step;
    if (work_[job] > 1e-6 * jobs_[job].work_s + 1e-9) return;
    is_open_[job] = false;
    ends_[job] = now_;
    --open_;
  }

  const std::vector<CostateJob>& jobs_;
  const double capacity_;
  std::vector<bool> is_open_;
  std::vector<double> ends_, work_, speeds_;
  std::vector<Part> list_;
  std::vector<size_t> running_;
  size_t open_ = 0;
  double now_ = 0;
};

}  // namespace

std::vector<SpeedSegment> ConcaveHull(const std::vector<std::pair<double, double>>& points) {
  std::vector<std::pair<double, double>> corners{{0, 0}};
  for (const auto& point : points) {
    if (point.second <= corners.back().second) continue;
    while (corners.size() > 1) {
      const auto& [x, y] = corners[corners.size() - 2];
      const auto& [next_x, next_y] = corners.back();
      const bool is_above =
          (next_y - y) * (point.first - next_x) > (point.second - next_y) * (next_x - x);
      if (is_above) break;
      corners.pop_back();
    }
    corners.push_back(point);
  }
  std::vector<SpeedSegment> hull;
  for (size_t i = 1; i < corners.size(); ++i)
    hull.push_back(
        {corners[i].first - corners[i - 1].first, corners[i].second - corners[i - 1].second});
  return hull;
}

std::vector<double> CostatesInOrder(const std::vector<CostateJob>& jobs,
                                    const std::vector<size_t>& order, double capacity,
                                    const std::vector<double>& starts) {
  std::vector<double> costates(jobs.size(), 0);
  PriceList prices(capacity);
  double wanted = 0, start = 1;
  for (size_t job : order) {
    wanted += 1;
    const std::vector<SpeedSegment>& hull = jobs[job].hull;
    if (hull.empty()) {
      costates[job] = 1;
      continue;
    }
    if (!starts.empty()) start = starts[job];
    start = costates[job] = SolveCostate(prices, hull, wanted, start);
    prices.Add(hull, costates[job]);
  }
  return costates;
}

std::vector<double> FluidCompletions(const std::vector<CostateJob>& jobs,
                                     const std::vector<double>& weights, double capacity) {
  return Fluid(jobs, weights, capacity).Run();
}

std::vector<double> Costates(const std::vector<CostateJob>& jobs, double capacity) {
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return jobs[a].work_s > jobs[b].work_s; });
  std::vector<double> costates = CostatesInOrder(jobs, order, capacity);
  for (int i = 0; i < kRefinements; ++i) {
    const std::vector<double> ends = FluidCompletions(jobs, costates, capacity);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return ends[a] > ends[b]; });
    costates = CostatesInOrder(jobs, order, capacity, costates);
  }
  return costates;
}

}  // namespace rt
