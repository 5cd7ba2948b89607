// CMA-ES on points of the cube: what it proposes, and what that depends on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/search/cma.h"
#include "tests/unit/search_course.h"

using namespace rt;

namespace {

const char* const kAllKinds =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},"f":{"randn":[0,1]}})";

double Flat(const Point&) { return 1; }
double Never(const Point&) { return std::nan(""); }
double NowAndThen(const Point& point) { return point[0] > 0.6 ? std::nan("") : Basin(point); }

Course Evolve(const Encoding& encoding, size_t trials, double (*objective)(const Point&),
              size_t in_flight = 1, double factor = 1, const CmaOptions& options = {}) {
  return FollowModel<CmaEs>(encoding, trials, objective, in_flight, factor, options);
}

}  // namespace

TEST_CASE("cma: every point is inside the cube and snapped, in a space of all kinds of variables") {
  const Encoding encoding = SearchedSpace(kAllKinds);
  const Course run = Evolve(encoding, 70, Basin, 4);
  for (const Point& point : run.points) {
    for (const double each : point) REQUIRE((each >= 0 && each <= 1));
    CHECK(encoding.Snap(point) == point);
  }
  CHECK(run.best < 0.1);
}

TEST_CASE("cma: more trials than the model takes at once give points inside the cube") {
  CmaOptions options;
  options.model_trials = 24;
  for (const Point& point : Evolve(SearchedCube(12), 40, Basin, 1, 1, options).points)
    for (const double each : point) REQUIRE((each >= 0 && each <= 1));
}

TEST_CASE("cma: a proposal follows from the results alone, however it came to them") {
  const Encoding encoding = SearchedSpace(kAllKinds);
  Course run = Evolve(encoding, 50, Basin, 3);
  CmaEs made_for_it(encoding, 3), restarted(encoding, 3);
  const Point next = made_for_it.Suggest(run.seen, 50)->point;
  // An object that has followed another history before.
  Observations other = run.seen;
  for (FinishedTrial& trial : other.finished) trial.value = -trial.value;
  REQUIRE(restarted.Suggest(other, 50).has_value());
  CHECK(restarted.Suggest(run.seen, 50)->point == next);
  CHECK(made_for_it.Suggest(run.seen, 50)->point == next);
  // The order of the lists is that of nobody.
  std::reverse(run.seen.finished.begin(), run.seen.finished.end());
  std::reverse(run.seen.in_flight.begin(), run.seen.in_flight.end());
  CHECK(CmaEs(encoding, 3).Suggest(run.seen, 50)->point == next);
}

TEST_CASE("cma: results are taken in the order of their ends, those of one time by number") {
  const Encoding encoding = SearchedCube(2);
  const Course run = Evolve(encoding, 40, Basin, 4);
  Observations by_number = run.seen, at_one_time = run.seen;
  for (FinishedTrial& trial : by_number.finished)
    trial.ended_at = static_cast<int64_t>(trial.number);
  for (FinishedTrial& trial : at_one_time.finished) trial.ended_at = 7;
  const Point next = CmaEs(encoding, 3).Suggest(run.seen, 40)->point;
  CHECK(CmaEs(encoding, 3).Suggest(by_number, 40)->point != next);
  CHECK(CmaEs(encoding, 3).Suggest(at_one_time, 40)->point ==
        CmaEs(encoding, 3).Suggest(by_number, 40)->point);
}

TEST_CASE("cma: the unit of the values does not matter") {
  const Encoding encoding = SearchedCube(3);
  CHECK(Evolve(encoding, 45, Basin, 2, 4096).points == Evolve(encoding, 45, Basin, 2).points);
}

TEST_CASE("cma: equal values, and none at all, leave the even points of the start") {
  const Encoding encoding = SearchedCube(2);
  const Course flat = Evolve(encoding, 30, Flat), never = Evolve(encoding, 30, Never);
  CHECK(flat.points == never.points);
  CHECK(std::set<Point>(flat.points.begin(), flat.points.end()).size() == 30);
}

TEST_CASE("cma: failed configurations are avoided") {
  const Course run = Evolve(SearchedCube(2), 60, NowAndThen);
  CHECK(run.best < 1e-4);
  size_t late = 0;
  for (size_t i = 30; i < 60; ++i) late += run.points[i][0] > 0.6 ? 1 : 0;
  CHECK(late < 6);
}

TEST_CASE("cma: an integer leaves its cell, and no configuration comes twice in a discrete space") {
  const Encoding encoding = SearchedSpace(R"({"a":{"randint":[0,8]},"b":{"randint":[0,8]}})");
  const Course run = Evolve(encoding, 64, Basin);
  CHECK(std::set<Point>(run.points.begin(), run.points.end()).size() == 64);
  CmaEs cma(encoding, 3);
  CHECK(cma.Suggest(run.seen, 64)->repeated);
}

TEST_CASE("cma: a search that has found its minimum restarts elsewhere") {
  const auto far_after_80 = [](size_t stall_trials) {
    CmaOptions options;
    options.stall_trials = stall_trials;
    const Course run = Evolve(SearchedCube(2), 140, Basin, 1, 1, options);
    return std::count_if(run.points.begin() + 80, run.points.end(),
                         [](const Point& point) { return Basin(point) > 0.02; });
  };
  CHECK(far_after_80(12) >= 3);
  CHECK(far_after_80(10'000) == 0);
}

TEST_CASE("cma: it gives up when its time is over, and continues where it was") {
  const Encoding encoding = SearchedCube(2);
  const Course run = Evolve(encoding, 40, Basin);
  const Point next = CmaEs(encoding, 3).Suggest(run.seen, 40)->point;
  CmaEs cma(encoding, 3);
  size_t asked = 0, calls = 0;
  std::optional<CmaAnswer> answer;
  while (!answer.has_value() && ++calls < 1000) {
    asked = 0;
    answer = cma.Suggest(run.seen, 40, [&] { return ++asked > 400; });
  }
  REQUIRE(answer.has_value());
  CHECK(calls > 1);
  CHECK(answer->point == next);
}

TEST_CASE("cma: a space without axes has one point") {
  const Encoding encoding = SearchedSpace(R"({"fixed":3})");
  CmaEs cma(encoding, 3);
  CHECK(cma.Suggest({}, 0)->point.empty());
}
