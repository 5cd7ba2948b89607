#include "common/search/noise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace rt {
namespace {

// The trials in which HasNoise looks for pairs, the part of these that are the nearest ones, and
// the least number of pairs that are compared.
constexpr size_t kTrialsMax = 100;
constexpr double kNearestPart = 0.03;
constexpr size_t kPairsMin = 20;
// The nearest pairs are at most this part of `distance` apart: differences over more may come from
// a function with many valleys.
constexpr double kNearestDistanceMax = 0.5;
// Pairs so many times as far apart as the nearest ones differ, without noise, by about the square
// of that: the ratio of their differences is near 0 then, and near 1 where all is noise.
constexpr double kFarFrom = 3, kFarTo = 6, kRatioOfNoise = 0.5;

struct Pair {
  double square;      // Of their distance.
  double difference;  // Of their ranks, squared.
};

bool IsNearer(const Pair& a, const Pair& b) {
  return a.square != b.square ? a.square < b.square : a.difference < b.difference;
}

// The newest by number.
std::vector<FinishedTrial> Newest(const std::vector<FinishedTrial>& finished, size_t most,
                                  bool only_finite) {
  std::vector<const FinishedTrial*> newest;
  for (const FinishedTrial& trial : finished)
    if (!only_finite || std::isfinite(trial.value)) newest.push_back(&trial);
  const auto is_newer = [](const FinishedTrial* a, const FinishedTrial* b) {
    return a->number > b->number;
  };
  if (newest.size() > most) {
    std::nth_element(newest.begin(), newest.begin() + static_cast<ptrdiff_t>(most), newest.end(),
                     is_newer);
    newest.resize(most);
  }
  std::sort(newest.begin(), newest.end(), is_newer);
  std::vector<FinishedTrial> copies;
  copies.reserve(newest.size());
  for (const FinishedTrial* trial : newest) copies.push_back(*trial);
  return copies;
}

// In (0, 1), by trial; equal values have the mean of their places. Those that are not finite: 1.
std::vector<double> Ranks(const std::vector<FinishedTrial>& trials) {
  std::vector<size_t> order;
  for (size_t i = 0; i < trials.size(); ++i)
    if (std::isfinite(trials[i].value)) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return trials[a].value < trials[b].value; });
  std::vector<double> ranks(trials.size(), 1);
  for (size_t from = 0; from < order.size();) {
    size_t to = from;
    while (to < order.size() && trials[order[to]].value == trials[order[from]].value) ++to;
    const double rank =
        static_cast<double>(from + to) / 2 / static_cast<double>(std::max<size_t>(order.size(), 1));
    for (; from < to; ++from) ranks[order[from]] = rank;
  }
  return ranks;
}

// The square of the distance between two points. Some number above `limit` where it is larger than
// that; infinite where categories differ.
double SquareBetween(const std::vector<bool>& is_category, const Point& a, const Point& b,
                     double limit) {
  double square = 0;
  for (size_t axis = 0; axis < a.size() && square <= limit; ++axis) {
    const double difference = a[axis] - b[axis];
    if (is_category[axis] && difference != 0) return HUGE_VAL;
    square += difference * difference;
  }
  return square;
}

std::vector<bool> Categories(const Encoding& encoding) {
  std::vector<bool> is_category;
  for (const Axis& axis : encoding.axes())
    is_category.push_back(axis.kind() == Axis::Kind::kCategories);
  return is_category;
}

}  // namespace

bool HasNoise(const Encoding& encoding, const std::vector<FinishedTrial>& finished,
              double distance) {
  const std::vector<FinishedTrial> trials = Newest(finished, kTrialsMax, true);
  const std::vector<double> ranks = Ranks(trials);
  const std::vector<bool> is_category = Categories(encoding);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < trials.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double square = SquareBetween(is_category, trials[i].point, trials[j].point, HUGE_VAL);
      const double difference = ranks[i] - ranks[j];
      if (std::isfinite(square)) pairs.push_back({square, difference * difference});
    }
  }
  const size_t count =
      std::max(kPairsMin, static_cast<size_t>(kNearestPart * static_cast<double>(pairs.size())));
  if (pairs.size() <= count) return false;
  // A copy is put in order, so that the sums below have the same order with any library.
  std::vector<Pair> nearest = pairs;
  const auto last = nearest.begin() + static_cast<ptrdiff_t>(count - 1);
  std::nth_element(nearest.begin(), last, nearest.end(), IsNearer);
  const auto middle = nearest.begin() + static_cast<ptrdiff_t>(count / 2);
  std::nth_element(nearest.begin(), middle, last, IsNearer);
  const double unit = middle->square;
  if (unit > kNearestDistanceMax * kNearestDistanceMax * distance * distance) return false;
  double near = 0, far = 0;
  size_t near_count = 0, far_count = 0;
  for (const Pair& pair : pairs) {
    if (!IsNearer(*last, pair)) {
      near += pair.difference;
      ++near_count;
    }
    if (!(pair.square > kFarFrom * kFarFrom * unit && pair.square < kFarTo * kFarTo * unit))
      continue;
    far += pair.difference;
    ++far_count;
  }
  if (far_count < kPairsMin) return false;
  return near / static_cast<double>(near_count) >
         kRatioOfNoise * far / static_cast<double>(far_count);
}

std::vector<FinishedTrial> WithSmoothValues(const Encoding& encoding,
                                            const std::vector<FinishedTrial>& finished, size_t most,
                                            double distance) {
  std::vector<FinishedTrial> trials = Newest(finished, most, false);
  const std::vector<double> ranks = Ranks(trials);
  const std::vector<bool> is_category = Categories(encoding);
  const double limit = distance * distance;
  std::vector<double> sums = ranks, weights(trials.size(), 1);  // Each has itself.
  for (size_t i = 0; i < trials.size(); ++i) {
    if (!std::isfinite(trials[i].value)) continue;
    for (size_t j = 0; j < i; ++j) {
      if (!std::isfinite(trials[j].value)) continue;
      const double square = SquareBetween(is_category, trials[i].point, trials[j].point, limit);
      if (square >= limit) continue;
      const double weight = 1 - square / limit;
      sums[i] += weight * ranks[j];
      sums[j] += weight * ranks[i];
      weights[i] += weight;
      weights[j] += weight;
    }
  }
  for (size_t i = 0; i < trials.size(); ++i)
    if (std::isfinite(trials[i].value)) trials[i].value = sums[i] / weights[i];
  return trials;
}

}  // namespace rt
