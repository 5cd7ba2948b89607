#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/rng.h"
#include "common/search/noise.h"
#include "common/search/tpe.h"

using namespace rt;

namespace {

constexpr double kDistance = 0.11;

Encoding RoughSpace(const std::string& text) {
  return *Encoding::Of(*ParseSpace(*Json::Parse(text), "space"));
}

const char* const kRoughPlane = R"({"x":{"uniform":[0,1]},"y":{"uniform":[0,1]}})";

double Valley(const Point& point) {
  double sum = 0;
  for (const double x : point) sum += (x - 0.4) * (x - 0.4);
  return sum;
}

// Half of the trials are spread over the plane and half lie around the minimum, as those of a
// search. `noise` is the deviation of the values.
std::vector<FinishedTrial> SearchedTrials(size_t trials, double noise, uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<FinishedTrial> finished;
  for (uint64_t number = 0; number < trials; ++number) {
    Point point{rng.Uniform(), rng.Uniform()};
    if (number % 2 == 1)
      for (double& x : point) x = 0.4 + 0.2 * (x - 0.5);
    const double value = Valley(point) + noise * rng.Normal();
    finished.push_back({number, std::move(point), value});
  }
  return finished;
}

}  // namespace

TEST_CASE("noise: it is told from a function without, whatever the scale and order of the values") {
  const Encoding encoding = RoughSpace(kRoughPlane);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    INFO(seed);
    const auto smooth = SearchedTrials(100, 0, seed);
    auto noisy = SearchedTrials(100, 0.05, seed);
    CHECK(!HasNoise(encoding, smooth, kDistance));
    CHECK(HasNoise(encoding, noisy, kDistance));
    for (FinishedTrial& trial : noisy) trial.value = std::exp(3 * trial.value);
    std::reverse(noisy.begin(), noisy.end());
    CHECK(HasNoise(encoding, noisy, kDistance));
    // Failed trials do not count.
    for (uint64_t i = 0; i < 40; ++i) noisy.push_back({1000 + i, {0.4, 0.4}, HUGE_VAL});
    CHECK(HasNoise(encoding, noisy, kDistance));
  }
}

TEST_CASE("noise: too few trials, or trials too far apart, tell nothing") {
  const Encoding encoding = RoughSpace(kRoughPlane);
  for (const size_t trials : {0u, 1u, 2u, 6u})
    CHECK(!HasNoise(encoding, SearchedTrials(trials, 10, 1), kDistance));
  CHECK(HasNoise(encoding, SearchedTrials(100, 10, 1), kDistance));
  CHECK(!HasNoise(encoding, SearchedTrials(100, 10, 1), 0.001));
}

TEST_CASE("noise: trials of different categories are not compared") {
  const Encoding encoding =
      RoughSpace(R"({"kind":{"choice":["a","b","c","d"]},"x":{"uniform":[0,1]}})");
  std::vector<FinishedTrial> finished;
  Rng rng(3, 0);
  for (uint64_t number = 0; number < 100; ++number) {
    const double kind = encoding.axes()[0].Centre(number % 4), x = rng.Uniform();
    finished.push_back({number, {kind, x}, static_cast<double>(number % 4) * 100 + x});
  }
  CHECK(!HasNoise(encoding, finished, kDistance));
  // The mean of ranks stays within a category, whose ranks are a quarter of all.
  for (const FinishedTrial& trial : WithSmoothValues(encoding, finished, 100, 1)) {
    const double quarter = static_cast<double>(trial.number % 4) / 4;
    CHECK(trial.value > quarter);
    CHECK(trial.value < quarter + 0.25);
  }
}

TEST_CASE("noise: a smooth value is the mean rank of what is near") {
  const Encoding encoding = RoughSpace(R"({"x":{"uniform":[0,1]}})");
  const std::vector<FinishedTrial> finished = {
      {0, {0.5}, -7}, {1, {0.1}, 5}, {2, {0.2}, 3}, {3, {0.9}, 3}, {4, {0.25}, HUGE_VAL}};
  auto smooth = WithSmoothValues(encoding, finished, 4, 0.2);
  std::sort(smooth.begin(), smooth.end(),
            [](const FinishedTrial& a, const FinishedTrial& b) { return a.number < b.number; });
  // Trial 0 is not among the newest four. Of three finite values, two are equal: their ranks are
  // 1/3 each, and that of trial 1 is 5/6. A distance of 0.1 weighs 1 - (0.1 / 0.2)^2.
  REQUIRE(smooth.size() == 4);
  CHECK(smooth[0].value == Approx((5.0 / 6 + 0.75 / 3) / 1.75));
  CHECK(smooth[1].value == Approx((1.0 / 3 + 0.75 * 5 / 6) / 1.75));
  CHECK(smooth[2].value == Approx(1.0 / 3));
  CHECK(smooth[3].value == HUGE_VAL);
  CHECK(smooth[3].point == Point{0.25});
}

TEST_CASE("noise: tpe smooths values with noise, and no others") {
  const Encoding encoding = RoughSpace(kRoughPlane);
  const TpeOptions newest = TpeDefaults(kTpeVersion), before = TpeDefaults(2);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Observations seen{SearchedTrials(100, 0, seed), {}};
    CHECK(SuggestTpe(encoding, seen, seed, 100, newest)->point ==
          SuggestTpe(encoding, seen, seed, 100, before)->point);
    seen.finished = SearchedTrials(100, 0.05, seed);
    const Point point = SuggestTpe(encoding, seen, seed, 100, newest)->point;
    CHECK(point != SuggestTpe(encoding, seen, seed, 100, before)->point);
    std::reverse(seen.finished.begin(),
                 seen.finished.end());  // The order of the list is no matter.
    CHECK(SuggestTpe(encoding, seen, seed, 100, newest)->point == point);
  }
}
