// GP-BO on points of the cube: what it proposes, and what that depends on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "common/search/gp.h"
#include "common/search/improvement.h"
#include "tests/unit/search_course.h"

using namespace rt;

namespace {

const char* const kEveryKind =
    R"({"a":{"loguniform":[1e-4,1]},"b":{"randint":[0,20]},"c":{"quniform":[0,1,0.25]},
        "d":{"choice":["p","q","r"]},"e":{"choice":[16,32,64,128]},"f":{"randn":[0,1]}})";

double Rugged(const Point& point) {
  double sum = Basin(point);
  for (const double x : point) sum += 0.2 * std::cos(25 * x);
  return sum;
}
double Level(const Point&) { return 1; }
double Absent(const Point&) { return std::nan(""); }
double PartlyAbsent(const Point& point) { return point[0] > 0.6 ? std::nan("") : Basin(point); }

Course Follow(const Encoding& encoding, size_t trials, double (*objective)(const Point&),
              size_t in_flight = 1, double factor = 1, const GpOptions& options = {}) {
  return FollowModel<GpOptimizer>(encoding, trials, objective, in_flight, factor, options);
}

Point Next(const Encoding& encoding, const Course& course, const GpOptions& options = {}) {
  return GpOptimizer(encoding, 3, options).Suggest(course.seen, course.points.size())->point;
}

}  // namespace

TEST_CASE("gp: every point is inside the cube and snapped, in a space of all kinds of variables") {
  const Encoding encoding = SearchedSpace(kEveryKind);
  const Course course = Follow(encoding, 50, Basin, 4);
  for (const Point& point : course.points) {
    for (const double each : point) REQUIRE((each >= 0 && each <= 1));
    CHECK(encoding.Snap(point) == point);
  }
  CHECK(course.best < 0.1);
}

TEST_CASE("gp: with many axes every point is inside the cube") {
  for (const Point& point : Follow(SearchedCube(20), 26, Basin).points)
    for (const double each : point) REQUIRE((each >= 0 && each <= 1));
}

TEST_CASE("gp: a proposal follows from the results alone, however it came to them") {
  const Encoding encoding = SearchedSpace(kEveryKind);
  Course course = Follow(encoding, 34, Basin, 3);
  GpOptimizer made_for_it(encoding, 3), restarted(encoding, 3);
  const Point next = made_for_it.Suggest(course.seen, 34)->point;
  // An object that has followed another history before.
  Observations other = course.seen;
  for (FinishedTrial& trial : other.finished) trial.value = -trial.value;
  REQUIRE(restarted.Suggest(other, 34).has_value());
  CHECK(restarted.Suggest(course.seen, 34)->point == next);
  CHECK(made_for_it.Suggest(course.seen, 34)->point == next);
  // The order of the lists is that of nobody.
  std::reverse(course.seen.finished.begin(), course.seen.finished.end());
  std::reverse(course.seen.in_flight.begin(), course.seen.in_flight.end());
  CHECK(Next(encoding, course) == next);
}

TEST_CASE("gp: an object that is made for a long history answers as one that lived through it") {
  const Encoding encoding = SearchedCube(2);
  GpOptions options;
  options.history_max = kGpHistoryMin;
  GpOptimizer lived(encoding, 3, options);
  Course course;
  for (uint64_t number = 0; number < 3 * kGpHistoryMin; ++number) {
    const Point point = lived.Suggest(course.seen, number)->point;
    course.points.push_back(point);
    course.seen.finished.push_back({number, point, Basin(point), static_cast<int64_t>(number)});
    const Point next = lived.Suggest(course.seen, number + 1)->point;
    REQUIRE(next == Next(encoding, course, options));
  }
}

TEST_CASE("gp: the unit of the values does not matter") {
  const Encoding encoding = SearchedCube(3);
  CHECK(Follow(encoding, 25, Basin, 2, 4096).points == Follow(encoding, 25, Basin, 2).points);
}

TEST_CASE("gp: equal values, and none at all, leave the even points of the start") {
  const Encoding encoding = SearchedCube(2);
  const Course level = Follow(encoding, 20, Level), absent = Follow(encoding, 20, Absent);
  CHECK(level.points == absent.points);
  CHECK(std::set<Point>(level.points.begin(), level.points.end()).size() == 20);
}

TEST_CASE("gp: failed configurations are avoided") {
  const Course course = Follow(SearchedCube(2), 36, PartlyAbsent);
  CHECK(course.best < 1e-4);
  const auto fails = [](const Point& point) { return point[0] > 0.6; };
  CHECK(std::count_if(course.points.begin() + 20, course.points.end(), fails) < 6);
}

TEST_CASE("gp: trials in flight are not proposed again") {
  const Encoding encoding = SearchedCube(2);
  Course course = Follow(encoding, 10, Rugged);
  const Point first = Next(encoding, course);
  course.seen.in_flight.push_back({10, first});
  const Point second = GpOptimizer(encoding, 3).Suggest(course.seen, 11)->point;
  CHECK(std::abs(second[0] - first[0]) + std::abs(second[1] - first[1]) > 1e-3);
}

TEST_CASE("gp: no configuration comes twice in a discrete space, until all are used up") {
  const Encoding encoding = SearchedSpace(R"({"a":{"randint":[0,6]},"b":{"choice":["p","q"]}})");
  const Course course = Follow(encoding, 12, Basin);
  CHECK(std::set<Point>(course.points.begin(), course.points.end()).size() == 12);
  CHECK(GpOptimizer(encoding, 3).Suggest(course.seen, 12)->repeated);
}

TEST_CASE("gp: a thousand categories, of which a few are good") {
  std::string values;
  for (int i = 0; i < 1000; ++i) values += (i > 0 ? ",\"v" : "\"v") + std::to_string(i) + "\"";
  const Encoding encoding =
      SearchedSpace(R"({"a":{"uniform":[0,1]},"b":{"choice":[)" + values + "]}}");
  const Course course = Follow(encoding, 20, Basin, 2);
  for (const Point& point : course.points) CHECK(encoding.Snap(point) == point);
}

TEST_CASE("gp: it gives up when its time is over, and continues where it was") {
  const Encoding encoding = SearchedCube(2);
  const Course course = Follow(encoding, 24, Basin);
  const Point next = Next(encoding, course);
  GpOptimizer gp(encoding, 3);
  size_t asked = 0, calls = 0;
  std::optional<GpAnswer> answer;
  while (!answer.has_value() && ++calls < 1000) {
    asked = 0;
    answer = gp.Suggest(course.seen, 24, [&] { return ++asked > 2000; });
  }
  REQUIRE(answer.has_value());
  CHECK(answer->point == next);
  asked = 0;
  CHECK_FALSE(GpOptimizer(encoding, 3).Suggest(course.seen, 24, [&] { return ++asked > 9; }));
}

TEST_CASE("gp: a space without axes has one point") {
  const Encoding encoding = SearchedSpace(R"({"fixed":3})");
  GpOptimizer gp(encoding, 3);
  CHECK(gp.Suggest({}, 0)->point.empty());
}

TEST_CASE("chance: the logarithm and its slope hold far in the tail") {
  for (const double z : {-30.0, -7.0, -6.001, -5.999, -1.0, 0.0, 3.0}) {
    INFO(z);
    const double exact = std::log(0.5 * std::erfc(-z / std::sqrt(2.0)));
    CHECK(ChanceAt(z).logarithm == Approx(exact).epsilon(1e-4));
    const double step = 1e-4;
    const double slope = (ChanceAt(z + step).logarithm - ChanceAt(z - step).logarithm) / (2 * step);
    if (std::abs(z + 6) > 0.01) CHECK(ChanceAt(z).slope == Approx(slope).epsilon(1e-3));
  }
}
