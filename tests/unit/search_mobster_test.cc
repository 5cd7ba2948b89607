// MOBSTER's model: at which rung it expects improvement, what it learns from the others, and that
// an answer depends on nothing but what is seen.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/unit/mobster_course.h"

using namespace rt;

namespace {

const char* const kMobsterMixed =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},
        "f":{"randn":[0,1],"if":{"d":["p","q"]}}})";

}  // namespace

TEST_CASE("mobster: improvement is expected at the highest rung that has values") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  CHECK(!Asked(square, Opposed(square, 5, 0)).milestone.has_value());
  CHECK(Asked(square, Opposed(square, 6, 2)).milestone == 1);
  CHECK(Asked(square, Opposed(square, 30, 3)).milestone == 3);
  CHECK(Asked(square, Opposed(square, 30, 3), 1'000,
              {.random_fraction = 0, .even_weight = 0, .rows_min = 4})
            .milestone == 1);
  CHECK(!Asked(square, Opposed(square, 30, 3), 1'000,
               {.random_fraction = 0, .even_weight = 0, .startup_trials = 31})
             .milestone.has_value());
  Observations seen = Opposed(square, 30, 30);
  for (uint64_t number = 50; number < 55; ++number)
    seen.finished.push_back({number, ScrambledSobol(3, number, 2), static_cast<double>(number)});
  CHECK(Asked(square, seen).milestone == kTrainedToTheEnd);
}

TEST_CASE("mobster: where ranks at the rungs are opposite, what is bad below is good above") {
  const Encoding line = SearchedSpace(R"({"x":{"uniform":[0,1]}})");
  const auto low = [](const Point& x) { return x[0] + 0.1 * std::sin(20 * x[0]); };
  Observations seen = OpenTrials(line, 40, 0, low, low);
  for (FlyingTrial& trial : seen.in_flight)
    if (trial.point[0] < 0.5) trial.rungs.push_back({3, -low(trial.point)});
  double above = 0;
  for (uint64_t number = 1'000; number < 1'010; ++number)
    above += Asked(line, seen, number).point[0] > 0.5 ? 1 : 0;
  CHECK(above >= 9);
}

TEST_CASE("mobster: every point is inside the cube and snapped, and the answer repeats") {
  const Encoding mixed = SearchedSpace(kMobsterMixed);
  Observations seen;
  Mobster kept(mixed, 3, kModelOnly);
  for (uint64_t number = 0; number < 40; ++number) {
    const Point point = kept.Suggest(seen, number)->point;
    REQUIRE(mixed.Snap(point) == point);
    for (double x : point) REQUIRE((x >= 0 && x <= 1));
    REQUIRE(mixed.Encode(mixed.Decode(point)).has_value());
    REQUIRE(Mobster(mixed, 3, kModelOnly).Suggest(seen, number)->point == point);
    std::vector<RungResult> rungs = {{1, DistanceTo(point, 0.5)}};
    if (number % 3 == 0) rungs.push_back({3, DistanceTo(point, 0.4)});
    if (number % 2 == 0) seen.in_flight.push_back({number, point, rungs});
    else seen.finished.push_back({number, point, DistanceTo(point, 0.5), 0, {}, 0, {}, rungs});
  }
  CHECK(kept.Suggest(seen, 40)->point != Mobster(mixed, 4, kModelOnly).Suggest(seen, 40)->point);
}

TEST_CASE("mobster: an object that has seen other results answers as a new one does") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  Mobster kept(square, 1, kModelOnly);
  for (const size_t at_first : {30, 12, 60}) {
    Observations seen = Opposed(square, at_first, at_first / 2);
    CHECK(kept.Suggest(seen, 1'000)->point == Asked(square, seen).point);
    for (FlyingTrial& trial : seen.in_flight)  // Not as many others, but other ones.
      for (RungResult& rung : trial.rungs) rung.value = std::sin(9 * trial.point[0]) + rung.value;
    CHECK(kept.Suggest(seen, 1'000)->point == Asked(square, seen).point);
  }
}

TEST_CASE("mobster: neither the scale of the values nor the order of the lists counts") {
  const Encoding mixed = SearchedSpace(kMobsterMixed);
  const Observations seen = Opposed(mixed, 40, 15);
  const Point plain = Asked(mixed, seen).point;
  Observations scaled = seen;
  for (FlyingTrial& trial : scaled.in_flight)
    for (RungResult& rung : trial.rungs) rung.value *= 1024;
  CHECK(Asked(mixed, scaled).point == plain);
  Observations turned = seen;
  std::reverse(turned.in_flight.begin(), turned.in_flight.end());
  CHECK(Asked(mixed, turned).point == plain);
}

TEST_CASE("mobster: what was just proposed is not proposed again") {
  const Encoding line = SearchedSpace(R"({"x":{"uniform":[0,1]}})");
  Observations seen;
  for (uint64_t number = 0; number < 8; ++number) {
    const Point point = line.Snap(ScrambledSobol(99, number, 1));
    seen.finished.push_back({number, point, std::sin(25 * point[0])});
  }
  const Point free = Asked(line, seen).point;
  seen.in_flight.push_back({8, {free[0] < 0.5 ? free[0] + 1e-4 : free[0] - 1e-4}});
  CHECK(std::abs(Asked(line, seen).point[0] - free[0]) > 0.02);
  seen.in_flight.back().rungs = {{1, 0.0}};  // It was recorded: its value counts, not its place.
  CHECK(Asked(line, seen).milestone == kTrainedToTheEnd);
}

TEST_CASE("mobster: without differences, without numbers, and without results, points are even") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  Observations seen = Opposed(square, 20, 0);
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = 7;
  CHECK(!Asked(square, seen).milestone.has_value());
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = std::nan("");
  CHECK(!Asked(square, seen).milestone.has_value());
  CHECK(Asked(square, {}).point == square.Snap(ScrambledSobol(1, 1'000, 2)));
}

TEST_CASE("mobster: what fails or has no number is avoided") {
  const Encoding line = SearchedSpace(R"({"x":{"uniform":[0,1]}})");
  Observations seen;
  for (uint64_t number = 0; number < 40; ++number) {
    const Point point = line.Snap(ScrambledSobol(99, number, 1));
    if (point[0] < 0.5) seen.finished.push_back({number, point, std::nan("")});
    else seen.in_flight.push_back({number, point, {{1, 1 - point[0] / 100}}});
  }
  int below = 0;
  for (uint64_t number = 100; number < 120; ++number)
    below += Asked(line, seen, number).point[0] < 0.5 ? 1 : 0;
  CHECK(below <= 1);
}

TEST_CASE("mobster: identical points, a space without axes, and one that is used up") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  Observations same;
  for (uint64_t number = 0; number < 30; ++number)
    same.finished.push_back({number, Point{0.5, 0.5}, static_cast<double>(number)});
  const MobsterAnswer apart = Asked(square, same);
  CHECK(!apart.repeated);
  for (double x : apart.point) CHECK(std::isfinite(x));
  const Encoding none = SearchedSpace(R"({"x":3})");
  CHECK(Asked(none, {}).point.empty());
  const Encoding small = SearchedSpace(R"({"x":{"choice":["a","b","c"]},"y":{"randint":[0,4]}})");
  Observations seen;
  std::set<std::string> tried;
  for (uint64_t number = 0; number < 12; ++number) {
    const MobsterAnswer answer = Asked(small, seen, number);
    CHECK(!answer.repeated);
    CHECK(tried.insert(small.Decode(answer.point).Dump()).second);
    seen.finished.push_back({number, answer.point, static_cast<double>(number % 5)});
  }
  CHECK(Asked(small, seen, 12).repeated);
}

TEST_CASE("mobster: the good one of 1 000 categories is found again") {
  std::string values = "\"v0\"";
  for (int i = 1; i < 1'000; ++i) values += ",\"v" + std::to_string(i) + "\"";
  const Encoding wide =
      SearchedSpace(R"({"k":{"choice":[)" + values + R"(]},"x":{"uniform":[0,1]}})");
  const size_t k = wide.axes()[0].kind() == Axis::Kind::kCategories ? 0 : 1;
  Observations seen;
  for (uint64_t number = 0; number < 60; ++number) {
    Point point = wide.Snap(ScrambledSobol(99, number, 2));
    if (number % 7 == 0) point[k] = wide.axes()[k].Centre(7);
    const double value = number % 7 == 0 ? 0.1 * point[1 - k] : 1 + point[1 - k];
    seen.finished.push_back({number, point, value});
  }
  int again = 0;
  for (uint64_t number = 100; number < 110; ++number)
    again += wide.Decode(Asked(wide, seen, number).point).GetString("k") == "v7" ? 1 : 0;
  CHECK(again >= 9);
}

TEST_CASE("mobster: it gives up when asked to, and not before") {
  const Encoding square = SearchedSpace(kMobsterSquare);
  const Observations seen = Opposed(square, 30, 30);
  Mobster model(square, 1, kModelOnly);
  CHECK(!model.Suggest(seen, 7, [] { return true; }).has_value());
  int asked = 0;
  CHECK(!model.Suggest(seen, 7, [&] { return ++asked > 20; }).has_value());
  CHECK(model.Suggest(seen, 7, [] { return false; })->point == Asked(square, seen, 7).point);
}
