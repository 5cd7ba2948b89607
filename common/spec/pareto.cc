#include "common/spec/pareto.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

// Puts what is not a number behind every number.
double Ordered(double value) { return std::isnan(value) ? HUGE_VAL : value; }

// For each point of the front, the space to its neighbours: infinite at the ends.
std::vector<double> Crowding(const std::vector<Values>& points, const std::vector<size_t>& front) {
  std::vector<double> space(front.size(), 0);
  std::vector<size_t> order(front.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t k = 0; k < points[front.front()].size(); ++k) {
    const auto value = [&](size_t i) { return Ordered(points[front[i]][k]); };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return value(a) != value(b) ? value(a) < value(b) : a < b;
    });
    const double width = value(order.back()) - value(order.front());
    space[order.front()] = space[order.back()] = HUGE_VAL;
    if (!(width > 0) || !std::isfinite(width)) continue;
    for (size_t i = 1; i + 1 < order.size(); ++i)
      space[order[i]] += (value(order[i + 1]) - value(order[i - 1])) / width;
  }
  return space;
}

// By the first objective, then the next, so that only what comes before a point can dominate it.
void SortByValues(const std::vector<Values>& points, std::vector<size_t>& order) {
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    for (size_t k = 0; k < points[a].size(); ++k) {
      const double left = Ordered(points[a][k]), right = Ordered(points[b][k]);
      if (left != right) return left < right;
    }
    return a < b;
  });
}

// Removes from these sorted points the ones that no other one of them dominates, and returns them.
std::vector<size_t> TakeFront(const std::vector<Values>& points, std::vector<size_t>& sorted) {
  std::vector<size_t> front, rest;
  for (const size_t i : sorted) {
    const auto dominates = [&](size_t known) { return Dominates(points[known], points[i]); };
    const bool is_behind = std::any_of(front.begin(), front.end(), dominates);
    (is_behind ? rest : front).push_back(i);
  }
  sorted = std::move(rest);
  return front;
}

double BoxVolume(const Values& point, const Values& reference) {
  double volume = 1;
  for (size_t k = 0; k < point.size(); ++k) volume *= reference[k] - point[k];
  return volume;
}

// Of two objectives: a sweep along the first. `points` are sorted by it.
double Area(const std::vector<Values>& points, const Values& reference) {
  double area = 0, height = reference[1];
  for (const Values& point : points) {
    if (point[1] >= height) continue;
    area += (reference[0] - point[0]) * (height - point[1]);
    height = point[1];
  }
  return area;
}

double VolumeOf(std::vector<Values> points, const Values& reference);

// What `points[i]` adds to the points after it: its box, less what they dominate of it.
double Exclusive(const std::vector<Values>& points, size_t i, const Values& reference) {
  std::vector<Values> others;
  for (size_t j = i + 1; j < points.size(); ++j) {
    Values limited = points[j];
    for (size_t k = 0; k < limited.size(); ++k) limited[k] = std::max(limited[k], points[i][k]);
    others.push_back(std::move(limited));
  }
  const double box = BoxVolume(points[i], reference);
  return others.empty() ? box : box - VolumeOf(std::move(others), reference);
}

double VolumeOf(std::vector<Values> points, const Values& reference) {
  std::vector<Values> front;
  for (const size_t i : FrontOf(points)) front.push_back(points[i]);
  std::sort(front.begin(), front.end());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  if (reference.size() == 2) return Area(front, reference);
  double volume = 0;
  for (size_t i = 0; i < front.size(); ++i) volume += Exclusive(front, i, reference);
  return volume;
}

}  // namespace

bool Dominates(const Values& a, const Values& b) {
  bool is_better = false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (Ordered(a[k]) > Ordered(b[k])) return false;
    is_better = is_better || Ordered(a[k]) < Ordered(b[k]);
  }
  return is_better;
}

std::vector<size_t> FrontOf(const std::vector<Values>& points) {
  std::vector<size_t> all(points.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  SortByValues(points, all);
  std::vector<size_t> front = TakeFront(points, all);
  std::sort(front.begin(), front.end());
  return front;
}

std::vector<double> PlacesOf(const std::vector<Values>& points, size_t together, size_t ranked) {
  std::vector<double> places(points.size(), 0);
  std::vector<size_t> left(points.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  SortByValues(points, left);
  double place = 0;
  for (size_t done = 0; !left.empty() && done < ranked;) {
    std::vector<size_t> front = TakeFront(points, left);
    std::sort(front.begin(), front.end());
    if (front.size() > together) {
      const std::vector<double> space = Crowding(points, front);
      std::vector<std::pair<double, size_t>> order;
      for (size_t i = 0; i < front.size(); ++i) order.emplace_back(-space[i], front[i]);
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < order.size(); ++i) front[i] = order[i].second;
    }
    for (size_t i = 0; i < front.size(); ++i) {
      if (i > 0 && i % together == 0) ++place;
      places[front[i]] = place;
    }
    ++place;
    done += front.size();
  }
  for (const size_t i : left) places[i] = place;
  return places;
}

double Hypervolume(std::vector<Values> points, const Values& reference) {
  std::erase_if(points, [&](const Values& point) {
    for (size_t k = 0; k < point.size(); ++k)
      if (!(point[k] < reference[k]) || !std::isfinite(point[k])) return true;
    return false;
  });
  if (points.empty()) return 0;
  if (reference.size() == 1) {
    double best = points.front()[0];
    for (const Values& point : points) best = std::min(best, point[0]);
    return reference[0] - best;
  }
  return VolumeOf(std::move(points), reference);
}

}  // namespace rt
