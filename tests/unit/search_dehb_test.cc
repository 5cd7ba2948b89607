// DEHB's differential evolution: from which trials it makes new ones, and how experiments name it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/search/dehb.h"
#include "common/search/sobol.h"

using namespace rt;

namespace {

Encoding DehbCube(const std::string& text) {
  const auto space = ParseSpace(*Json::Parse(text), "space");
  REQUIRE(space.ok());
  return *Encoding::Of(*space);
}

const char* const kDehbSquare = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";
const char* const kDehbMixed =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},
        "f":{"randn":[0,1],"if":{"d":["p","q"]}}})";

double SquaredDistance(const Point& point, double centre) {
  double sum = 0;
  for (double x : point) sum += (x - centre) * (x - centre);
  return sum;
}

// Open trials: rung 1 says that the minimum is at 0.2, rung 3 that it is at 0.8.
Observations OpenAtRungs(const Encoding& encoding, size_t at_first, size_t at_third) {
  Observations seen;
  for (uint64_t number = 0; number < at_first; ++number) {
    const Point point = encoding.Snap(ScrambledSobol(99, number, encoding.axes().size()));
    std::vector<RungResult> rungs = {{1, SquaredDistance(point, 0.2)}};
    if (number < at_third) rungs.push_back({3, SquaredDistance(point, 0.8)});
    seen.in_flight.push_back({number, point, rungs});
  }
  return seen;
}

DehbAnswer Bred(const Encoding& encoding, const Observations& seen, uint64_t number = 1'000,
                const DehbOptions& options = {}) {
  return *SuggestDehb(encoding, seen, 1, number, options);
}

// One trial at a time, without rungs; the best value.
double DehbBest(const Encoding& encoding, size_t trials, uint64_t seed, bool is_even) {
  Observations seen;
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = is_even ? ScrambledSobol(seed, number, encoding.axes().size())
                          : SuggestDehb(encoding, seen, seed, number)->point;
    const double value = SquaredDistance(point, 0.3);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

}  // namespace

TEST_CASE("dehb: a population is that of the highest rung with enough trials") {
  const Encoding square = DehbCube(kDehbSquare);
  CHECK(!Bred(square, OpenAtRungs(square, 3, 0)).milestone.has_value());
  CHECK(Bred(square, OpenAtRungs(square, 4, 0)).milestone == 1);
  CHECK(Bred(square, OpenAtRungs(square, 30, 19)).milestone == 1);
  CHECK(Bred(square, OpenAtRungs(square, 30, 20)).milestone == 3);
  CHECK(Bred(square, OpenAtRungs(square, 19, 18)).milestone == 1);  // The larger one.
  CHECK(Bred(square, OpenAtRungs(square, 30, 8), 1'000, {.population_size = 8}).milestone == 3);
  Observations seen = OpenAtRungs(square, 30, 30);
  for (uint64_t number = 50; number < 70; ++number)
    seen.finished.push_back({number, ScrambledSobol(3, number, 2), static_cast<double>(number)});
  CHECK(Bred(square, seen).milestone == kTrainedToTheEnd);
}

TEST_CASE("dehb: what it proposes descends from the best trials") {
  const Encoding square = DehbCube(kDehbSquare);
  for (const double centre : {0.2, 0.8}) {
    const Observations seen = OpenAtRungs(square, 200, centre == 0.8 ? 200 : 0);
    double sum = 0;
    for (uint64_t number = 1'000; number < 1'040; ++number)
      sum += SquaredDistance(Bred(square, seen, number).point, centre) / 40;
    CHECK(sum < 0.1);  // Even points: 0.35.
  }
}

TEST_CASE("dehb: a child is its parent but for what the moved trial gives it") {
  // Three equal members and one other: a + F (b - c) has one of few values on each axis.
  const Encoding square = DehbCube(kDehbSquare);
  Observations seen;
  const Point first{0.25, 0.25}, other{0.5, 0.5};
  for (uint64_t number = 0; number < 4; ++number)
    seen.finished.push_back({number, number == 0 ? other : first, static_cast<double>(number)});
  const std::set<double> possible = {0.25, 0.5, 0.375, 0.125};
  bool is_mixed = false;
  for (uint64_t number = 100; number < 200; ++number) {
    const Point child = Bred(square, seen, number).point;
    const bool is_bred = possible.contains(child[0]) && possible.contains(child[1]);
    const bool is_taken = child[0] != child[1] && !is_bred;  // It was one of the trials.
    CHECK((is_bred || is_taken));
    is_mixed = is_mixed || (is_bred && child[0] != child[1]);
  }
  CHECK(is_mixed);
}

TEST_CASE("dehb: every point is inside the cube and snapped, and the answer repeats") {
  const Encoding mixed = DehbCube(kDehbMixed);
  Observations seen;
  for (uint64_t number = 0; number < 80; ++number) {
    const Point point = SuggestDehb(mixed, seen, 3, number, {.weight = 2})->point;
    REQUIRE(mixed.Snap(point) == point);
    for (double x : point) REQUIRE((x >= 0 && x <= 1));
    REQUIRE(mixed.Encode(mixed.Decode(point)).has_value());
    REQUIRE(SuggestDehb(mixed, seen, 3, number, {.weight = 2})->point == point);
    const std::vector<RungResult> rungs = {{1, SquaredDistance(point, 0.5)}};
    if (number % 2 == 0) seen.in_flight.push_back({number, point, rungs});
    else seen.finished.push_back({number, point, SquaredDistance(point, 0.5)});
  }
  CHECK(SuggestDehb(mixed, seen, 3, 80)->point != SuggestDehb(mixed, seen, 4, 80)->point);
}

TEST_CASE("dehb: only the order of the values counts, not that of the lists") {
  const Encoding mixed = DehbCube(kDehbMixed);
  const Observations seen = OpenAtRungs(mixed, 60, 30);
  const DehbAnswer plain = Bred(mixed, seen);
  Observations scaled = seen;
  for (FlyingTrial& trial : scaled.in_flight)
    for (RungResult& rung : trial.rungs) rung.value = 1e6 * rung.value - 1e3;
  CHECK(Bred(mixed, scaled).point == plain.point);
  Observations turned = seen;
  std::reverse(turned.in_flight.begin(), turned.in_flight.end());
  CHECK(Bred(mixed, turned).point == plain.point);
}

TEST_CASE("dehb: without differences, without numbers, and without results, points are even") {
  const Encoding square = DehbCube(kDehbSquare);
  Observations seen = OpenAtRungs(square, 20, 0);
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = 7;
  CHECK(!Bred(square, seen).milestone.has_value());
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = std::nan("");
  CHECK(!Bred(square, seen).milestone.has_value());
  CHECK(Bred(square, {}).point == square.Snap(ScrambledSobol(1, 1'000, 2)));
}

TEST_CASE("dehb: what fails or has no number has no children") {
  const Encoding line = DehbCube(R"({"x":{"uniform":[0,1]}})");
  Observations seen;
  for (uint64_t number = 0; number < 60; ++number) {
    const Point point = line.Snap(ScrambledSobol(99, number, 1));
    if (point[0] < 0.5) seen.finished.push_back({number, point, std::nan("")});
    else seen.in_flight.push_back({number, point, {{1, 1 - point[0] / 100}}});
  }
  double below = 0;
  for (uint64_t number = 100; number < 200; ++number)
    below += Bred(line, seen, number).point[0] < 0.5 ? 1 : 0;
  CHECK(below < 25);  // Only coordinates beyond the cube are drawn anew.
}

TEST_CASE("dehb: identical points, a space without axes, and one that is used up") {
  const Encoding square = DehbCube(kDehbSquare);
  Observations same;
  for (uint64_t number = 0; number < 30; ++number)
    same.finished.push_back({number, Point{0.5, 0.5}, static_cast<double>(number)});
  const DehbAnswer apart = Bred(square, same);
  CHECK(!apart.repeated);
  CHECK(apart.point != Point{0.5, 0.5});
  const Encoding none = DehbCube(R"({"x":3})");
  CHECK(Bred(none, {}).point.empty());
  const Encoding small = DehbCube(R"({"x":{"choice":["a","b","c"]},"y":{"randint":[0,4]}})");
  Observations seen;
  std::set<std::string> tried;
  for (uint64_t number = 0; number < 12; ++number) {
    const DehbAnswer answer = *SuggestDehb(small, seen, 1, number);
    CHECK(!answer.repeated);
    CHECK(tried.insert(small.Decode(answer.point).Dump()).second);
    seen.finished.push_back({number, answer.point, static_cast<double>(number % 5)});
  }
  CHECK(Bred(small, seen).repeated);
}

TEST_CASE("dehb: the good ones of 1 000 categories are found again") {
  std::string values = "\"v0\"";
  for (int i = 1; i < 1'000; ++i) values += ",\"v" + std::to_string(i) + "\"";
  const Encoding wide = DehbCube(R"({"k":{"choice":[)" + values + R"(]},"x":{"uniform":[0,1]}})");
  const size_t k = wide.axes()[0].kind() == Axis::Kind::kCategories ? 0 : 1;
  Observations seen;
  for (uint64_t number = 0; number < 140; ++number) {
    Point point = wide.Snap(ScrambledSobol(99, number, 2));
    if (number % 7 == 0) point[k] = wide.axes()[k].Centre(7);
    seen.finished.push_back({number, point, number % 7 == 0 ? 0.0 : 1.0 + point[1 - k]});
  }
  int again = 0;
  for (uint64_t number = 200; number < 240; ++number)
    again += wide.Decode(Bred(wide, seen, number).point).GetString("k") == "v7" ? 1 : 0;
  CHECK(again > 30);
}

TEST_CASE("dehb: it comes closer to a minimum than even points do") {
  const Encoding cube = DehbCube(R"({"a":{"uniform":[0,1]},"b":{"uniform":[0,1]},)"
                                 R"("c":{"uniform":[0,1]},"d":{"uniform":[0,1]}})");
  int wins = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed)
    wins += DehbBest(cube, 150, seed, false) < 0.5 * DehbBest(cube, 150, seed, true) ? 1 : 0;
  CHECK(wins >= 9);
}

TEST_CASE("dehb: it gives up when asked to, and not before") {
  const Encoding square = DehbCube(kDehbSquare);
  const Observations seen = OpenAtRungs(square, 20, 20);
  CHECK(!SuggestDehb(square, seen, 1, 7, {}, [] { return true; }).has_value());
  CHECK(SuggestDehb(square, seen, 1, 7, {}, [] { return false; }).has_value());
}
