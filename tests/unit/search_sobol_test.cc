#include <catch2/catch.hpp>
#include <set>

#include "common/search/sobol.h"

using namespace rt;

namespace {
// Whether 2^k coordinates have exactly one in each of the 2^k equal intervals.
bool IsStratified(const std::vector<double>& coordinates) {
  std::set<uint64_t> intervals;
  for (double x : coordinates)
    intervals.insert(static_cast<uint64_t>(x * static_cast<double>(coordinates.size())));
  return intervals.size() == coordinates.size();
}

std::vector<double> AxisOf(uint64_t seed, uint64_t from, size_t count, size_t axis) {
  std::vector<double> coordinates;
  for (uint64_t number = from; number < from + count; ++number)
    coordinates.push_back(ScrambledSobol(seed, number, axis + 1)[axis]);
  return coordinates;
}
}  // namespace

TEST_CASE("sobol: unscrambled points are those of Joe and Kuo's direction numbers") {
  const size_t dimensions[] = {0, 1, 2, 5, 9, 20, 40, 63};
  const auto point = [&](uint64_t number) {
    std::vector<double> coordinates;
    for (size_t d : dimensions) coordinates.push_back(SobolCoordinate(number, d));
    return coordinates;
  };
  CHECK(point(0) == std::vector<double>(8, 0.0));
  CHECK(point(1) == std::vector<double>(8, 0.5));
  CHECK(point(2) == std::vector<double>{0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25});
  CHECK(point(13) ==
        std::vector<double>{0.6875, 0.8125, 0.4375, 0.8125, 0.8125, 0.6875, 0.0625, 0.1875});
  CHECK(point(1000) == std::vector<double>{0.0927734375, 0.1611328125, 0.4501953125, 0.1630859375,
                                           0.1220703125, 0.2626953125, 0.6416015625, 0.9990234375});
}

TEST_CASE("sobol: each axis of 2^k points is stratified, also beyond the table of directions") {
  for (size_t axis : {0u, 1u, 7u, 39u, 63u, 64u, 65u, 127u, 128u, 300u})
    for (size_t count : {8u, 64u, 256u}) {
      INFO("axis " << axis << ", " << count << " points");
      REQUIRE(IsStratified(AxisOf(3, 0, count, axis)));
      REQUIRE(IsStratified(AxisOf(4, 5 * count, count, axis)));
    }
}

TEST_CASE("sobol: pairs of axes fill the elementary intervals of the plane") {
  // The first two axes are a (0, m, 2)-net: one point in each rectangle of area 1/64.
  for (int split = 0; split <= 6; ++split) {
    std::set<std::pair<int, int>> cells;
    for (uint64_t number = 0; number < 64; ++number) {
      const std::vector<double> point = ScrambledSobol(9, number, 2);
      cells.emplace(static_cast<int>(point[0] * (1 << split)),
                    static_cast<int>(point[1] * (64 >> split)));
    }
    CHECK(cells.size() == 64);
  }
}

TEST_CASE("sobol: a point depends on seed, number and dimension only, and lies inside the cube") {
  const std::vector<double> wide = ScrambledSobol(5, 77, 1000);
  const std::vector<double> narrow = ScrambledSobol(5, 77, 3);
  CHECK(std::vector<double>(wide.begin(), wide.begin() + 3) == narrow);
  CHECK(ScrambledSobol(6, 77, 3) != narrow);
  CHECK(ScrambledSobol(5, 78, 3) != narrow);
  CHECK(ScrambledSobol(5, 77, 0).empty());
  std::set<double> different;
  for (double x : wide) {
    REQUIRE(x > 0);
    REQUIRE(x < 1);
    different.insert(x);
  }
  CHECK(different.size() == wide.size());
}
