// A search of the cube by one model, as the tests of CMA-ES and GP-BO follow it.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/search/encoding.h"
#include "common/search/observations.h"

namespace rt {

inline Encoding SearchedSpace(const std::string& text) {
  auto space = ParseSpace(*Json::Parse(text), "space");
  INFO(space.status().ToString());
  REQUIRE(space.ok());
  return *Encoding::Of(*space);
}

inline Encoding SearchedCube(size_t axes) {
  std::string text;
  for (size_t i = 0; i < axes; ++i)
    text += (i > 0 ? ",\"x" : "{\"x") + std::to_string(100 + i) + "\":{\"uniform\":[0,1]}";
  return SearchedSpace(text + "}");
}

inline double Basin(const Point& point) {
  double sum = 0;
  for (const double x : point) sum += (x - 0.3) * (x - 0.3);
  return sum;
}

struct Course {
  std::vector<Point> points;
  double best = HUGE_VAL;
  Observations seen;
};

// Several in flight end in a random order; each end has a time of its own.
template <class Model, class Options>
Course FollowModel(const Encoding& encoding, size_t trials, double (*objective)(const Point&),
                   size_t in_flight, double factor, const Options& options) {
  Course course;
  Model model(encoding, 3, options);
  Rng order(9, 0);
  for (uint64_t number = 0; number < trials; ++number) {
    const auto answer = model.Suggest(course.seen, number);
    REQUIRE(answer.has_value());
    course.points.push_back(answer->point);
    course.seen.in_flight.push_back({number, answer->point});
    if (course.seen.in_flight.size() < in_flight) continue;
    const size_t ended = order.Below(course.seen.in_flight.size());
    const FlyingTrial trial = course.seen.in_flight[ended];
    course.seen.in_flight.erase(course.seen.in_flight.begin() + static_cast<std::ptrdiff_t>(ended));
    const double value = factor * objective(trial.point);
    course.best = std::min(course.best, value);
    course.seen.finished.push_back(
        {trial.number, trial.point, value, static_cast<int64_t>(number)});
  }
  return course;
}

}  // namespace rt
