#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/base/rng.h"
#include "common/search/sobol.h"
#include "common/search/taken.h"
#include "common/search/tpe.h"

using namespace rt;

namespace {
Encoding CubeOf(const std::string& text) {
  auto space = ParseSpace(*Json::Parse(text), "space");
  INFO(space.status().ToString());
  REQUIRE(space.ok());
  return *Encoding::Of(*space);
}

const char* const kSquare = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";
const char* const kMixed =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},"f":{"randn":[0,1]}})";

// A smooth function of a point, with its minimum at 0.3 on every axis.
double Bowl(const Point& point) {
  double sum = 0;
  for (double x : point) sum += (x - 0.3) * (x - 0.3);
  return sum;
}

using ScoredBy = double (*)(const Point&);

// A history of random points.
Observations RandomHistory(const Encoding& encoding, size_t trials, ScoredBy objective = Bowl) {
  Observations seen;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = encoding.Snap(ScrambledSobol(99, number, encoding.axes().size()));
    const double value = objective(point);
    seen.finished.push_back({number, std::move(point), value});
  }
  return seen;
}

// A search with one trial in flight; the best value. `points` receives every point.
double Search(const Encoding& encoding, size_t trials, uint64_t seed, ScoredBy objective,
              std::vector<Point>* points = nullptr) {
  Observations seen;
  double best = HUGE_VAL;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point = SuggestTpe(encoding, seen, seed, number)->point;
    if (points != nullptr) points->push_back(point);
    const double value = objective(point);
    best = std::min(best, value);
    seen.finished.push_back({number, std::move(point), value});
  }
  return best;
}

Point Suggested(const Encoding& encoding, const Observations& seen, uint64_t number = 1000) {
  return SuggestTpe(encoding, seen, 1, number)->point;
}
}  // namespace

TEST_CASE("taken: a configuration with a real value is not proposed twice either") {
  const Encoding mixed =
      CubeOf(R"({"a":{"uniform":[0,1]},"b":{"randint":[0,4]},"c":{"choice":["p","q"]}})");
  const Point corner = mixed.Snap({0, 0.1, 0.9});
  Observations seen;
  seen.in_flight.push_back({.number = 0, .point = corner});
  const Taken taken(mixed, seen);
  Rng rng(1, 2);
  Point free = mixed.Snap({0.5, 0.1, 0.9});
  const Point before = free;
  CHECK(taken.Avoid(free, rng));
  CHECK(free == before);
  Point again = corner;
  CHECK(taken.Avoid(again, rng));
  CHECK(again[0] != corner[0]);
  CHECK((again[0] > 0 && again[0] < 1));
  CHECK((again[1] == corner[1] && again[2] == corner[2]));  // Only the real value is another one.
}

TEST_CASE("tpe: every point is inside the cube and snapped, in a space of all kinds of variables") {
  const Encoding encoding = CubeOf(kMixed);
  std::vector<Point> points;
  Search(encoding, 80, 3, Bowl, &points);
  for (const Point& point : points) {
    REQUIRE(encoding.Snap(point) == point);
    for (double x : point) REQUIRE((x >= 0 && x <= 1));
    const Json params = encoding.Decode(point);
    const std::optional<Point> back = encoding.Encode(params);
    REQUIRE(back.has_value());
    REQUIRE(params.Find("b")->is_int());
    REQUIRE(params.Find("c")->is_double());
  }
}

TEST_CASE("tpe: the answer is a function of history, seed and number") {
  const Encoding encoding = CubeOf(kMixed);
  const Observations seen = RandomHistory(encoding, 60);
  const Point first = SuggestTpe(encoding, seen, 1, 60)->point;
  CHECK(SuggestTpe(encoding, seen, 1, 60)->point == first);
  CHECK(SuggestTpe(encoding, seen, 2, 60)->point != first);
  CHECK(SuggestTpe(encoding, seen, 1, 61)->point != first);
}

TEST_CASE("tpe: the order in which trials are listed does not matter") {
  const Encoding encoding = CubeOf(kMixed);
  Observations seen = RandomHistory(encoding, 90);
  for (size_t i = 0; i < seen.finished.size(); i += 3) seen.finished[i].value = 0.5;  // Ties.
  for (uint64_t number = 200; number < 204; ++number)
    seen.in_flight.push_back({number, ScrambledSobol(5, number, encoding.axes().size())});
  const Point even = Suggested(encoding, seen, 300), odd = Suggested(encoding, seen, 301);
  std::reverse(seen.finished.begin(), seen.finished.end());
  std::reverse(seen.in_flight.begin(), seen.in_flight.end());
  std::swap(seen.finished[7], seen.finished[40]);
  CHECK(Suggested(encoding, seen, 300) == even);
  CHECK(Suggested(encoding, seen, 301) == odd);
}

TEST_CASE("tpe: only the order of the values counts") {
  const Encoding encoding = CubeOf(kMixed);
  const Observations seen = RandomHistory(encoding, 70);
  for (uint64_t number : {300u, 301u}) {
    Observations scaled = seen, warped = seen;
    for (FinishedTrial& trial : scaled.finished) trial.value = 1e6 * trial.value - 1e3;
    for (FinishedTrial& trial : warped.finished) trial.value = std::exp(5 * trial.value);
    CHECK(Suggested(encoding, scaled, number) == Suggested(encoding, seen, number));
    CHECK(Suggested(encoding, warped, number) == Suggested(encoding, seen, number));
  }
}

TEST_CASE("tpe: the start is scrambled Sobol points, trials in flight included") {
  const Encoding encoding = CubeOf(kSquare);
  Observations seen;
  for (uint64_t number = 0; number < 8; ++number) {
    const TpeAnswer answer = *SuggestTpe(encoding, seen, 4, number);
    CHECK(!answer.from_model);
    CHECK(answer.point == ScrambledSobol(4, number, 2));
    seen.in_flight.push_back({number, answer.point});
  }
  CHECK(!SuggestTpe(encoding, seen, 4, 8)->from_model);  // Nothing has finished.
  for (const FlyingTrial& trial : seen.in_flight)
    seen.finished.push_back({trial.number, trial.point, Bowl(trial.point)});
  seen.in_flight.clear();
  CHECK(SuggestTpe(encoding, seen, 4, 8)->from_model);
}

TEST_CASE("tpe: without differences between values there is no model") {
  const Encoding encoding = CubeOf(kSquare);
  const Observations equal = RandomHistory(encoding, 50, [](const Point&) { return 7.0; });
  const TpeAnswer answer = *SuggestTpe(encoding, equal, 1, 50);
  CHECK(!answer.from_model);
  CHECK(answer.point == ScrambledSobol(1, 50, 2));
  const Observations failed =
      RandomHistory(encoding, 50, [](const Point&) { return std::nan(""); });
  CHECK(!SuggestTpe(encoding, failed, 1, 50)->from_model);
  Observations one;
  one.finished.push_back({0, {0.5, 0.5}, 1.0});
  CHECK(!SuggestTpe(encoding, one, 1, 1)->from_model);
}

TEST_CASE("tpe: points that fail are avoided, however the failure is written") {
  const Encoding encoding = CubeOf(kSquare);
  const double failures[] = {NAN, HUGE_VAL, -HUGE_VAL};
  std::vector<Point> answers;
  for (double failure : failures) {
    Observations seen = RandomHistory(encoding, 120, [](const Point& p) { return p[1]; });
    for (FinishedTrial& trial : seen.finished)
      if (trial.point[0] > 0.5) trial.value = failure;
    int inside = 0;
    for (uint64_t number = 200; number < 240; ++number)
      inside += Suggested(encoding, seen, number)[0] > 0.55;
    CHECK(inside <= 2);
    answers.push_back(Suggested(encoding, seen));
  }
  CHECK(answers[0] == answers[1]);
  CHECK(answers[0] == answers[2]);
}

TEST_CASE("tpe: identical points and a history on one line give finite answers") {
  const Encoding encoding = CubeOf(R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]},
                                           "z":{"uniform":[0,1]}})");
  Observations same, line;
  for (uint64_t number = 0; number < 40; ++number) {
    const double at = static_cast<double>(number) / 39;
    same.finished.push_back({number, {0.5, 0.5, 0.5}, static_cast<double>(number)});
    line.finished.push_back({number, {at, at, 1 - at}, std::abs(at - 0.4)});
  }
  for (const Observations* seen : {&same, &line})
    for (uint64_t number = 40; number < 60; ++number)
      for (double x : Suggested(encoding, *seen, number))
        REQUIRE((std::isfinite(x) && x >= 0 && x <= 1));
}

TEST_CASE("tpe: a space without variables has one point") {
  const Encoding encoding = CubeOf(R"({"lr":0.1,"batch":{"choice":[32]}})");
  Observations seen;
  const TpeAnswer first = *SuggestTpe(encoding, seen, 1, 0);
  CHECK(first.point.empty());
  CHECK(!first.repeated);
  seen.finished.push_back({0, {}, 1.0});
  CHECK(SuggestTpe(encoding, seen, 1, 1)->repeated);
}

TEST_CASE("tpe: a small space is used up without a repetition, and then says that it repeats") {
  const Encoding encoding =
      CubeOf(R"({"a":{"randint":[0,5]},"b":{"choice":["x","y","z"]},"c":{"choice":[1,2,4]}})");
  REQUIRE(encoding.Configurations() == 45);
  Observations seen;
  std::set<std::string> configurations;
  for (uint64_t number = 0; number < 45; ++number) {
    const TpeAnswer answer = *SuggestTpe(encoding, seen, 6, number);
    REQUIRE(!answer.repeated);
    configurations.insert(encoding.Decode(answer.point).Dump());
    if (number % 2 == 0) seen.finished.push_back({number, answer.point, Bowl(answer.point)});
    else seen.in_flight.push_back({number, answer.point});
  }
  CHECK(configurations.size() == 45);
  CHECK(SuggestTpe(encoding, seen, 6, 45)->repeated);
}

TEST_CASE("tpe: the good one of 1 000 categories is found again with others of its kind") {
  Json values = Json::MakeArray();
  for (int i = 0; i < 1000; ++i) values.Append(Json("v" + std::to_string(i)));
  const Encoding encoding =
      CubeOf(R"({"x":{"uniform":[0,1]},"c":{"choice":)" + values.Dump() + "}}");
  Observations seen = RandomHistory(encoding, 200);
  const double chosen = encoding.axes()[0].Centre(700);  // Axis 0 is "c".
  REQUIRE(encoding.axes()[0].count() == 1000);
  for (uint64_t i = 0; i < 20; ++i)
    seen.finished.push_back({300 + i, {chosen, static_cast<double>(i) / 20}, -1.0});
  int again = 0;
  for (uint64_t number = 400; number < 420; ++number)
    again += Suggested(encoding, seen, number)[0] == chosen;
  CHECK(again >= 10);
}

TEST_CASE("tpe: a long history is cut to the newest and the best") {
  const Encoding encoding = CubeOf(kSquare);
  Observations seen = RandomHistory(encoding, 2000);
  const Point whole = Suggested(encoding, seen, 3000);
  // Old trials that are not among the best 500 are forgotten: moving them changes nothing.
  std::vector<double> values;
  for (const FinishedTrial& trial : seen.finished) values.push_back(trial.value);
  std::nth_element(values.begin(), values.begin() + 500, values.end());
  size_t moved = 0;
  for (FinishedTrial& trial : seen.finished) {
    if (trial.number >= 1500 || trial.value <= values[500]) continue;
    trial.point = {0.3, 0.3};
    ++moved;
  }
  CHECK(moved > 900);
  CHECK(Suggested(encoding, seen, 3000) == whole);
  // A recent one is remembered.
  for (FinishedTrial& trial : seen.finished)
    if (trial.number >= 1900) trial.point = {0.31, 0.29};
  CHECK(Suggested(encoding, seen, 3000) != whole);
}

TEST_CASE("tpe: it gives up when asked to, and not before") {
  const Encoding encoding = CubeOf(kSquare);
  const Observations seen = RandomHistory(encoding, 50);
  int asked = 0;
  const auto late = [&] { return ++asked > 3; };
  CHECK(!SuggestTpe(encoding, seen, 1, 50, {}, late).has_value());
  CHECK(asked == 4);
  const auto never = [] { return false; };
  CHECK(SuggestTpe(encoding, seen, 1, 50, {}, never)->point ==
        SuggestTpe(encoding, seen, 1, 50)->point);
}

TEST_CASE("tpe: a search repeats to the bit, on any machine and with any compiler") {
  // A changed number means that journals of earlier releases no longer recompute: it needs a new
  // version of the algorithm beside the old one.
  const auto digest = [](const char* space) {
    std::vector<Point> points;
    Search(CubeOf(space), 60, 11, Bowl, &points);
    uint64_t bits = 0;
    for (const Point& point : points)
      for (double x : point) bits = Mix64(bits ^ std::bit_cast<uint64_t>(x));
    return bits;
  };
  CHECK(digest(kSquare) == 0x5b099adb4da4439bu);
  CHECK(digest(kMixed) == 0xdd7234807a4685adu);
}
