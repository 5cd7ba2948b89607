// BOHB's model: which rung it learns at, and what it proposes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/search/bohb.h"
#include "common/search/sobol.h"

using namespace rt;

namespace {

Encoding BohbCube(const std::string& text) {
  const auto space = ParseSpace(*Json::Parse(text), "space");
  REQUIRE(space.ok());
  return *Encoding::Of(*space);
}

const char* const kBohbSquare = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";
const char* const kBohbMixed =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},
        "f":{"randn":[0,1],"if":{"d":["p","q"]}}})";

double Distance(const Point& point, double centre) {
  double sum = 0;
  for (double x : point) sum += (x - centre) * (x - centre);
  return sum;
}

// Trials at rungs: rung 1 says that the minimum is at 0.2, rung 3 that it is at 0.8.
Observations AtRungs(const Encoding& encoding, size_t at_first, size_t at_third) {
  Observations seen;
  for (uint64_t number = 0; number < at_first; ++number) {
    const Point point = encoding.Snap(ScrambledSobol(99, number, encoding.axes().size()));
    std::vector<RungResult> rungs = {{1, Distance(point, 0.2)}};
    if (number < at_third) rungs.push_back({3, Distance(point, 0.8)});
    seen.in_flight.push_back({number, point, rungs});
  }
  return seen;
}

const BohbOptions kOnlyModel = {.random_fraction = 0};

BohbAnswer Answer(const Encoding& encoding, const Observations& seen, uint64_t number = 1'000,
                  const BohbOptions& options = kOnlyModel) {
  return *SuggestBohb(encoding, seen, 1, number, options);
}

double MeanDistance(const Encoding& encoding, const Observations& seen, double centre) {
  double sum = 0;
  for (uint64_t number = 1'000; number < 1'040; ++number)
    sum += Distance(Answer(encoding, seen, number).point, centre) / 40;
  return sum;
}

// One trial at a time, without rungs; the best value.
double BohbBest(const Encoding& encoding, size_t trials, uint64_t seed, double random_fraction) {
  Observations seen;
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point =
        SuggestBohb(encoding, seen, seed, number, {.random_fraction = random_fraction})->point;
    const double value = Distance(point, 0.3);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

}  // namespace

TEST_CASE("bohb: it learns at the highest rung that has enough trials, and there only") {
  const Encoding square = BohbCube(kBohbSquare);
  // Two axes: a rung needs two more values than there are axes and one.
  CHECK(!Answer(square, AtRungs(square, 4, 0)).milestone.has_value());
  CHECK(Answer(square, AtRungs(square, 5, 4)).milestone == 1);
  CHECK(Answer(square, AtRungs(square, 30, 4)).milestone == 1);
  CHECK(Answer(square, AtRungs(square, 30, 5)).milestone == 3);
  CHECK(Answer(square, AtRungs(square, 30, 5), 1'000, {.random_fraction = 0, .rows_min = 4})
            .milestone == 1);
  const Observations low = AtRungs(square, 40, 0), high = AtRungs(square, 40, 40);
  CHECK(MeanDistance(square, low, 0.2) < 0.1);
  CHECK(MeanDistance(square, high, 0.8) < 0.1);
  CHECK(MeanDistance(square, high, 0.2) > 0.4);
}

TEST_CASE("bohb: trials that were trained to their ends are above every rung") {
  const Encoding square = BohbCube(kBohbSquare);
  Observations seen = AtRungs(square, 20, 20);
  for (uint64_t number = 50; number < 55; ++number)
    seen.finished.push_back({number, ScrambledSobol(3, number, 2), static_cast<double>(number)});
  CHECK(Answer(square, seen).milestone == kTrainedToTheEnd);
  seen.finished.back().rungs = {{9, 1.0}};  // It was stopped at a rung.
  CHECK(Answer(square, seen).milestone == 3);
}

TEST_CASE("bohb: a third of the trials is spread evenly, whatever is known") {
  const Encoding square = BohbCube(kBohbSquare);
  const Observations seen = AtRungs(square, 40, 40);
  int even = 0;
  for (uint64_t number = 0; number < 3'000; ++number)
    even += SuggestBohb(square, seen, 1, number, {.candidates = 1})->milestone.has_value() ? 0 : 1;
  CHECK(even > 900);
  CHECK(even < 1'100);
}

TEST_CASE("bohb: every point is inside the cube and snapped, and the answer repeats") {
  const Encoding mixed = BohbCube(kBohbMixed);
  Observations seen;
  for (uint64_t number = 0; number < 60; ++number) {
    const Point point = SuggestBohb(mixed, seen, 3, number)->point;
    REQUIRE(mixed.Snap(point) == point);
    for (double x : point) REQUIRE((x >= 0 && x <= 1));
    REQUIRE(mixed.Encode(mixed.Decode(point)).has_value());
    REQUIRE(SuggestBohb(mixed, seen, 3, number)->point == point);
    const std::vector<RungResult> rungs = {{1, Distance(point, 0.5)}};
    if (number % 2 == 0) seen.in_flight.push_back({number, point, rungs});
    else seen.finished.push_back({number, point, Distance(point, 0.5)});
  }
  CHECK(SuggestBohb(mixed, seen, 3, 60)->point != SuggestBohb(mixed, seen, 4, 60)->point);
}

TEST_CASE("bohb: only the order of the values counts, not that of the lists") {
  const Encoding mixed = BohbCube(kBohbMixed);
  const Observations seen = AtRungs(mixed, 60, 30);
  const BohbAnswer plain = Answer(mixed, seen);
  Observations scaled = seen;
  for (FlyingTrial& trial : scaled.in_flight)
    for (RungResult& rung : trial.rungs) rung.value = 1e6 * rung.value - 1e3;
  CHECK(Answer(mixed, scaled).point == plain.point);
  Observations turned = seen;
  std::reverse(turned.in_flight.begin(), turned.in_flight.end());
  CHECK(Answer(mixed, turned).point == plain.point);
}

TEST_CASE("bohb: without differences, and without results, trials are spread evenly") {
  const Encoding square = BohbCube(kBohbSquare);
  Observations seen = AtRungs(square, 20, 0);
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = 7;
  CHECK(!Answer(square, seen).milestone.has_value());
  for (FlyingTrial& trial : seen.in_flight) trial.rungs[0].value = std::nan("");
  CHECK(!Answer(square, seen).milestone.has_value());
  CHECK(Answer(square, {}).point == square.Snap(ScrambledSobol(1, 1'000, 2)));
}

TEST_CASE("bohb: what fails or has no number is avoided") {
  const Encoding line = BohbCube(R"({"x":{"uniform":[0,1]}})");
  Observations seen;
  for (uint64_t number = 0; number < 40; ++number) {
    const Point point = line.Snap(ScrambledSobol(99, number, 1));
    if (point[0] < 0.5) seen.finished.push_back({number, point, std::nan("")});
    else if (point[0] < 0.6) seen.in_flight.push_back({number, point, {{1, std::nan("")}}});
    else seen.in_flight.push_back({number, point, {{1, 1 - point[0] / 100}}});
  }
  double below = 0;
  for (uint64_t number = 100; number < 200; ++number)
    below += Answer(line, seen, number).point[0] < 0.6 ? 1 : 0;
  CHECK(below < 10);
}

TEST_CASE("bohb: identical points, a space without axes, and one that is used up") {
  const Encoding square = BohbCube(kBohbSquare);
  Observations same;
  for (uint64_t number = 0; number < 30; ++number)
    same.finished.push_back({number, Point{0.5, 0.5}, static_cast<double>(number)});
  for (double x : Answer(square, same).point) CHECK(std::isfinite(x));
  const Encoding none = BohbCube(R"({"x":3})");
  CHECK(Answer(none, {}).point.empty());
  const Encoding small = BohbCube(R"({"x":{"choice":["a","b","c"]},"y":{"randint":[0,4]}})");
  Observations seen;
  std::set<std::string> tried;
  for (uint64_t number = 0; number < 12; ++number) {
    const BohbAnswer answer = *SuggestBohb(small, seen, 1, number);
    CHECK(!answer.repeated);
    CHECK(tried.insert(small.Decode(answer.point).Dump()).second);
    seen.finished.push_back({number, answer.point, static_cast<double>(number % 5)});
  }
  CHECK(Answer(small, seen).repeated);
}

TEST_CASE("bohb: the good ones of 1 000 categories are found again") {
  std::string values = "\"v0\"";
  for (int i = 1; i < 1'000; ++i) values += ",\"v" + std::to_string(i) + "\"";
  const Encoding wide = BohbCube(R"({"k":{"choice":[)" + values + R"(]},"x":{"uniform":[0,1]}})");
  Observations seen;
  for (uint64_t number = 0; number < 60; ++number) {
    Point point = wide.Snap(ScrambledSobol(99, number, 2));
    const size_t k = wide.axes()[0].kind() == Axis::Kind::kCategories ? 0 : 1;
    if (number % 7 == 0) point[k] = wide.axes()[k].Centre(7);
    seen.finished.push_back({number, point, number % 7 == 0 ? 0.0 : 1.0 + point[1 - k]});
  }
  int again = 0;
  for (uint64_t number = 100; number < 140; ++number)
    again += wide.Decode(Answer(wide, seen, number).point).GetString("k") == "v7" ? 1 : 0;
  CHECK(again > 10);
}

TEST_CASE("bohb: it comes closer to a minimum than even points do") {
  const Encoding cube = BohbCube(R"({"a":{"uniform":[0,1]},"b":{"uniform":[0,1]},)"
                                 R"("c":{"uniform":[0,1]},"d":{"uniform":[0,1]}})");
  int wins = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed)
    wins += BohbBest(cube, 100, seed, 1.0 / 3) < BohbBest(cube, 100, seed, 1) ? 1 : 0;
  CHECK(wins >= 9);
}

TEST_CASE("bohb: it gives up when asked to, and not before") {
  const Encoding square = BohbCube(kBohbSquare);
  const Observations seen = AtRungs(square, 20, 20);
  CHECK(!SuggestBohb(square, seen, 1, 7, kOnlyModel, [] { return true; }).has_value());
  CHECK(SuggestBohb(square, seen, 1, 7, kOnlyModel, [] { return false; }).has_value());
}
