// MOBSTER's model: at which rung it expects improvement, what it learns from the others, and that
// an answer depends on nothing but what is seen.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/search/mobster.h"
#include "common/search/sobol.h"

using namespace rt;

namespace {

Encoding MobsterCube(const std::string& text) {
  const auto space = ParseSpace(*Json::Parse(text), "space");
  REQUIRE(space.ok());
  return *Encoding::Of(*space);
}

const char* const kMobsterSquare = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";
const char* const kMobsterMixed =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},
        "f":{"randn":[0,1],"if":{"d":["p","q"]}}})";

double DistanceTo(const Point& point, double centre) {
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
Observations Opposed(const Encoding& encoding, size_t at_first, size_t at_third) {
  return OpenTrials(
      encoding, at_first, at_third, [](const Point& x) { return DistanceTo(x, 0.2); },
      [](const Point& x) { return DistanceTo(x, 0.8); });
}

const MobsterOptions kModelOnly = {.random_fraction = 0, .even_weight = 0};

MobsterAnswer Asked(const Encoding& encoding, const Observations& seen, uint64_t number = 1'000,
                    const MobsterOptions& options = kModelOnly) {
  return *Mobster(encoding, 1, options).Suggest(seen, number);
}

double MeanDistanceTo(const Encoding& encoding, const Observations& seen, double centre,
                      const MobsterOptions& options = kModelOnly) {
  double sum = 0;
  for (uint64_t number = 1'000; number < 1'010; ++number)
    sum += DistanceTo(Asked(encoding, seen, number, options).point, centre) / 10;
  return sum;
}

// One trial at a time, without rungs; the best value.
double MobsterBest(const Encoding& encoding, size_t trials, uint64_t seed, bool is_even) {
  Observations seen;
  Mobster model(encoding, seed);
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = is_even ? ScrambledSobol(seed, number, encoding.axes().size())
                          : model.Suggest(seen, number)->point;
    const double value = DistanceTo(point, 0.3);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

}  // namespace

TEST_CASE("mobster: improvement is expected at the highest rung that has values") {
  const Encoding square = MobsterCube(kMobsterSquare);
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

TEST_CASE("mobster: what low rungs say counts until high ones say otherwise") {
  const Encoding square = MobsterCube(kMobsterSquare);
  CHECK(MeanDistanceTo(square, Opposed(square, 30, 0), 0.2) < 0.05);
  CHECK(MeanDistanceTo(square, Opposed(square, 30, 30), 0.8) < 0.05);
  // A valley that rung 1 has and five values at rung 3, all far from it, cannot show.
  const auto valley = [](const Point& x) { return DistanceTo(x, 0.7); };
  Observations seen = OpenTrials(square, 40, 0, valley, valley);
  size_t at_third = 0;
  for (FlyingTrial& trial : seen.in_flight) {
    if (at_third == 5 || valley(trial.point) < 0.3) continue;
    trial.rungs.push_back({3, 10 + 2 * valley(trial.point)});
    ++at_third;
  }
  REQUIRE(at_third == 5);
  REQUIRE(Asked(square, seen).milestone == 3);
  CHECK(MeanDistanceTo(square, seen, 0.7) < 0.15);  // Even points: 0.25.
}

TEST_CASE("mobster: where ranks at the rungs are opposite, what is bad below is good above") {
  const Encoding line = MobsterCube(R"({"x":{"uniform":[0,1]}})");
  const auto low = [](const Point& x) { return x[0] + 0.1 * std::sin(20 * x[0]); };
  Observations seen = OpenTrials(line, 40, 0, low, low);
  for (FlyingTrial& trial : seen.in_flight)
    if (trial.point[0] < 0.5) trial.rungs.push_back({3, -low(trial.point)});
  double above = 0;
  for (uint64_t number = 1'000; number < 1'010; ++number)
    above += Asked(line, seen, number).point[0] > 0.5 ? 1 : 0;
  CHECK(above >= 9);
}

TEST_CASE("mobster: a part of the trials is spread evenly, most of them at first") {
  const Encoding square = MobsterCube(kMobsterSquare);
  const auto even_of = [&](const Observations& seen) {
    int even = 0;
    Mobster model(square, 1);  // One for all, so that it learns once.
    for (uint64_t number = 0; number < 200; ++number)
      even += model.Suggest(seen, number)->milestone.has_value() ? 0 : 1;
    return even;
  };
  Observations seen = Opposed(square, 12, 12);
  CHECK(even_of(seen) == 200);  // None was trained to its end.
  for (uint64_t number = 0; number < 60; ++number) {
    seen.finished.push_back(
        {100 + number, ScrambledSobol(3, number, 2), 0.1 * static_cast<double>(number % 7)});
    if (number == 7) CHECK(std::abs(even_of(seen) - 100) < 30);
  }
  CHECK(std::abs(even_of(seen) - 40) < 20);
}

TEST_CASE("mobster: every point is inside the cube and snapped, and the answer repeats") {
  const Encoding mixed = MobsterCube(kMobsterMixed);
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
  const Encoding square = MobsterCube(kMobsterSquare);
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
  const Encoding mixed = MobsterCube(kMobsterMixed);
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
  const Encoding line = MobsterCube(R"({"x":{"uniform":[0,1]}})");
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
  const Encoding square = MobsterCube(kMobsterSquare);
  Observations seen = Opposed(square, 20, 0);
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = 7;
  CHECK(!Asked(square, seen).milestone.has_value());
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = std::nan("");
  CHECK(!Asked(square, seen).milestone.has_value());
  CHECK(Asked(square, {}).point == square.Snap(ScrambledSobol(1, 1'000, 2)));
}

TEST_CASE("mobster: what fails or has no number is avoided") {
  const Encoding line = MobsterCube(R"({"x":{"uniform":[0,1]}})");
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
  const Encoding square = MobsterCube(kMobsterSquare);
  Observations same;
  for (uint64_t number = 0; number < 30; ++number)
    same.finished.push_back({number, Point{0.5, 0.5}, static_cast<double>(number)});
  const MobsterAnswer apart = Asked(square, same);
  CHECK(!apart.repeated);
  for (double x : apart.point) CHECK(std::isfinite(x));
  const Encoding none = MobsterCube(R"({"x":3})");
  CHECK(Asked(none, {}).point.empty());
  const Encoding small = MobsterCube(R"({"x":{"choice":["a","b","c"]},"y":{"randint":[0,4]}})");
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
      MobsterCube(R"({"k":{"choice":[)" + values + R"(]},"x":{"uniform":[0,1]}})");
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

TEST_CASE("mobster: it comes far closer to a minimum than even points do") {
  const Encoding cube = MobsterCube(R"({"a":{"uniform":[0,1]},"b":{"uniform":[0,1]},)"
                                    R"("c":{"uniform":[0,1]},"d":{"uniform":[0,1]}})");
  int wins = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed)
    wins += MobsterBest(cube, 60, seed, false) < 0.05 * MobsterBest(cube, 60, seed, true) ? 1 : 0;
  CHECK(wins >= 4);
}

TEST_CASE("mobster: it gives up when asked to, and not before") {
  const Encoding square = MobsterCube(kMobsterSquare);
  const Observations seen = Opposed(square, 30, 30);
  Mobster model(square, 1, kModelOnly);
  CHECK(!model.Suggest(seen, 7, [] { return true; }).has_value());
  int asked = 0;
  CHECK(!model.Suggest(seen, 7, [&] { return ++asked > 20; }).has_value());
  CHECK(model.Suggest(seen, 7, [] { return false; })->point == Asked(square, seen, 7).point);
}

TEST_CASE("mobster: where most trials are bad, it searches among the good ones") {
  const Encoding encoding = MobsterCube(kMobsterSquare);
  const auto error = [](const Point& x) {
    return x[0] > 0.45 ? 0.9 : 0.02 + 0.1 * DistanceTo(x, 0.2);
  };
  const Observations seen = OpenTrials(encoding, 60, 20, error, error);
  MobsterOptions unstretched = kModelOnly;
  unstretched.stretches_best = false;
  const double distance = MeanDistanceTo(encoding, seen, 0.2);
  const double before = MeanDistanceTo(encoding, seen, 0.2, unstretched);
  INFO("distance " << distance << ", unstretched " << before);
  CHECK(distance < 0.1);
  CHECK(distance < 0.5 * before);
}
