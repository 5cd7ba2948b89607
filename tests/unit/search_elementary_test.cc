#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/rng.h"
#include "common/search/elementary.h"

using namespace rt;

namespace {
bool IsNear(double value, double expected, double relative) {
  return std::abs(value - expected) <= relative * std::abs(expected);
}
}  // namespace

TEST_CASE("elementary: exponential and logarithm agree with the C library to the last bits") {
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const double x = -700 + 1400 * rng.Uniform();
    REQUIRE(IsNear(Exp(x), std::exp(x), 5e-16));
    const double y = std::exp(x);
    REQUIRE((IsNear(Log(y), std::log(y), 5e-16) || std::abs(Log(y) - std::log(y)) < 1e-16));
    const double near_one = 0.5 + rng.Uniform();
    REQUIRE(IsNear(Log(near_one), std::log(near_one), 5e-16));
  }
  CHECK(Exp(0) == 1);
  CHECK(Log(1) == 0);
}

TEST_CASE("elementary: exponential and logarithm at the ends of their ranges") {
  CHECK(Exp(-1e9) == 0);
  CHECK(Exp(-HUGE_VAL) == 0);
  CHECK(std::isinf(Exp(1e9)));
  CHECK(std::isnan(Exp(std::nan(""))));
  CHECK(Log(0) == -HUGE_VAL);
  CHECK(std::isnan(Log(-1)));
  CHECK(std::isnan(Log(std::nan(""))));
  CHECK(std::isinf(Log(HUGE_VAL)));
  CHECK(IsNear(Log(0x1p-1022), -1022 * std::log(2.0), 1e-15));
}

TEST_CASE("elementary: the normal distribution function at known points") {
  CHECK(NormalCdf(0) == Approx(0.5).epsilon(1e-15));
  CHECK(IsNear(NormalCdf(-8), 6.22096057427174e-16, 1e-6));
  CHECK(IsNear(NormalCdf(-3), 0.0013498980316300933, 1e-13));
  CHECK(IsNear(NormalCdf(-1.5), 0.06680720126885807, 1e-13));
  CHECK(IsNear(NormalCdf(0.7), 0.758036347776927, 1e-14));
  CHECK(IsNear(NormalCdf(2.5), 0.9937903346742238, 1e-14));
  CHECK(NormalCdf(9) == 1);
  CHECK(NormalCdf(-40) == 0);
}

TEST_CASE("elementary: the quantile inverts the distribution function") {
  Rng rng(2);
  for (int i = 0; i < 10'000; ++i) {
    const double p = rng.Uniform();
    REQUIRE(std::abs(NormalCdf(NormalQuantile(p)) - p) < 1e-14);
  }
  CHECK(NormalQuantile(0.5) == 0);
  CHECK(IsNear(NormalQuantile(1e-12), -7.034483825301131, 1e-14));
  CHECK(IsNear(NormalQuantile(0.999), 3.090232306167813, 1e-14));
  CHECK(std::isfinite(NormalQuantile(0)));
  CHECK(std::isfinite(NormalQuantile(1)));
}
