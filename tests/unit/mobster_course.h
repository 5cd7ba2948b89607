// Open trials at two rungs, and what MOBSTER's model answers about them.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "common/search/mobster.h"
#include "common/search/sobol.h"
#include "tests/unit/search_course.h"

namespace rt {

inline const char* const kMobsterSquare = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";
inline double DistanceTo(const Point& point, double centre) {
  double sum = 0;
  for (double x : point) sum += (x - centre) * (x - centre);
  return sum;
}

// Open trials whose values at rung 1 are `low(point)`, and at rung 3, of the first of them,
// `high(point)`.
template <class Low, class High>
Observations OpenTrials(const Encoding& encoding, size_t at_first, size_t at_third, const Low& low,
                        const High& high) {
  Observations seen;
  for (uint64_t number = 0; number < at_first; ++number) {
    const Point point = encoding.Snap(ScrambledSobol(99, number, encoding.axes().size()));
    std::vector<RungResult> rungs = {{1, low(point)}};
    if (number < at_third) rungs.push_back({3, high(point)});
    seen.in_flight.push_back({number, point, rungs});
  }
  return seen;
}

// Rung 1 says that the minimum is at 0.2, rung 3 that it is at 0.8.
inline Observations Opposed(const Encoding& encoding, size_t at_first, size_t at_third) {
  return OpenTrials(
      encoding, at_first, at_third, [](const Point& x) { return DistanceTo(x, 0.2); },
      [](const Point& x) { return DistanceTo(x, 0.8); });
}

inline const MobsterOptions kModelOnly = {.random_fraction = 0, .even_weight = 0};

inline MobsterAnswer Asked(const Encoding& encoding, const Observations& seen,
                           uint64_t number = 1'000, const MobsterOptions& options = kModelOnly) {
  return *Mobster(encoding, 1, options).Suggest(seen, number);
}

}  // namespace rt
