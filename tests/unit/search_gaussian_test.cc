// The numerical parts of CMA-ES and GP-BO: triangular matrices, the minimiser, the Gaussian
// process, the expected improvement, and the distribution that evolves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/search/evolution.h"
#include "common/search/gaussian_process.h"
#include "common/search/improvement.h"
#include "common/search/minimise.h"
#include "common/search/surrogate.h"
#include "common/search/triangular.h"

using namespace rt;

namespace {

// A positive definite matrix by columns.
std::vector<double> CovarianceOf(size_t n) {
  std::vector<double> matrix(n * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i) {
      const double distance = static_cast<double>(i) - static_cast<double>(j);
      matrix[j * n + i] = std::exp(-0.1 * distance * distance) + (i == j ? 0.5 : 0);
    }
  return matrix;
}

GaussianData Waves(size_t count, size_t axes) {
  GaussianData data{.axes = axes};
  data.coordinates.resize(count * axes);
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t k = 0; k < axes; ++k) {
      const double x = std::fmod(0.618 * static_cast<double>((i + 1) * (k + 1)) + 0.1, 1.0);
      data.coordinates[k * count + i] = x;
      sum += std::sin(5 * x) * static_cast<double>(k + 1);
    }
    data.values.push_back(sum);
  }
  return data;
}

GaussianForm FormOf(size_t axes, bool has_products = true) {
  return {.axes = axes,
          .length_mean = std::log(0.5) + 0.5 * std::log(static_cast<double>(axes)),
          .length_deviation = 0.4,
          .noise_mean = std::log(1e-5),
          .has_products = has_products};
}

}  // namespace

TEST_CASE("triangular: the factor, its inverse and the inverse of the matrix, in all sizes") {
  for (const size_t n : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 13u, 30u}) {
    INFO(n);
    const std::vector<double> matrix = CovarianceOf(n);
    std::vector<double> factor = matrix;
    REQUIRE(FactoriseLower(factor, n));
    const std::vector<double> inverse = InverseOfLower(factor, n);
    const std::vector<double> whole = TransposedTimes(inverse, n);
    std::vector<double> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = std::cos(static_cast<double>(i));
    // The inverse of L, applied to L x, gives x; the other product is the transpose's.
    std::vector<double> product(n, 0), solved(n, 0);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = j; i < n; ++i) product[i] += factor[j * n + i] * x[j];
    const std::vector<double> back = LowerTimes(inverse, product);
    const std::vector<double> through = TransposedTimes(inverse, LowerTimes(inverse, x));
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < n; ++i) solved[i] += whole[std::min(i, j) * n + std::max(i, j)] * x[j];
    for (size_t i = 0; i < n; ++i) {
      CHECK(back[i] == Approx(x[i]).margin(1e-10));
      CHECK(through[i] == Approx(solved[i]).margin(1e-10));
    }
  }
  std::vector<double> not_definite = {1, 2, 2, 1};
  CHECK_FALSE(FactoriseLower(not_definite, 2));
}

TEST_CASE("minimise: a curved valley, and a minimum on the edge of the box") {
  const SmoothFunction rosenbrock = [](const std::vector<double>& x, std::vector<double>& g) {
    const double a = x[1] - x[0] * x[0], b = 1 - x[0];
    g = {-400 * a * x[0] - 2 * b, 200 * a};
    return 100 * a * a + b * b;
  };
  const Box wide{{-2, -2}, {2, 2}};
  std::vector<double> x = {-1.2, 1};
  CHECK(Minimise(rosenbrock, wide, {.iterations = 200, .gradient_min = 1e-8}, x) < 1e-10);
  CHECK(x[0] == Approx(1).margin(1e-4));
  const Box narrow{{-2, -2}, {0.5, 2}};
  x = {-1.2, 1};
  Minimise(rosenbrock, narrow, {.iterations = 200, .gradient_min = 1e-8}, x);
  CHECK(x[0] == 0.5);
  CHECK(x[1] == Approx(0.25).margin(1e-3));
}

TEST_CASE("gaussian process: it predicts between its points, and is sure only near them") {
  for (const size_t axes : {1u, 2u, 5u}) {
    INFO(axes);
    const GaussianData data = Waves(60, axes);
    GaussianProcess process(FormOf(axes));
    const double before = process.Fit(data, 0, {});
    CHECK(process.Fit(data, 40, {}) < before);
    REQUIRE(process.Condition(data));
    for (size_t i = 0; i < data.count(); i += 7) {
      std::vector<double> x;
      for (size_t k = 0; k < axes; ++k) x.push_back(data.coordinates[k * data.count() + i]);
      CHECK(process.MeanAt(x) == Approx(data.values[i]).margin(0.05));
      CHECK(process.MeanAt(x) == Approx(process.MeanAtData(i)).margin(1e-6));
      CHECK(process.At(x).mean == Approx(process.MeanAt(x)));
      std::vector<double> far = x;
      for (double& each : far) each += 3;
      CHECK(process.At(far).variance > 10 * process.At(x).variance);
    }
  }
}

TEST_CASE("gaussian process: the fit follows the gradient of its loss") {
  const GaussianData data = Waves(25, 2);
  GaussianProcess one(FormOf(2)), more(FormOf(2));
  // A wrong gradient ends the line search at the first step.
  const double after_one = one.Fit(data, 1, {}), after_more = more.Fit(data, 30, {});
  GaussianProcess none(FormOf(2));
  CHECK(after_one < none.Fit(data, 0, {}));
  CHECK(after_more < after_one - 0.1);
}

TEST_CASE("gaussian process: a chance of noise tells noise from short lengths") {
  // Waves with an error that alternates in no regular way.
  constexpr size_t kCount = 60;
  const GaussianData exact = Waves(kCount, 2);
  GaussianData data = exact;
  for (size_t i = 0; i < kCount; ++i)
    data.values[i] += 0.6 * std::sin(static_cast<double>(37 * i * i % 101));
  const auto error = [&](double chance, bool starts_noisy) {
    GaussianForm form = FormOf(2, false);
    form.noise_mean = std::log(1e-6);
    form.noise_chance = chance;
    GaussianProcess process(form);
    if (starts_noisy) process.ResetNoisy();
    const double before = process.Fit(data, 0, {});
    CHECK(process.Fit(data, 40, {}) < before);
    REQUIRE(process.Condition(data));
    double squares = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double miss = process.MeanAtData(i) - exact.values[i];
      squares += miss * miss / kCount;
    }
    return std::sqrt(squares);
  };
  const double without = error(0, false), with = error(0.02, true);
  CHECK(with < 0.25);
  CHECK(with < 0.6 * without);
}

TEST_CASE("gaussian process: predictions have the slopes that differences show") {
  for (const auto kernel :
       {GaussianForm::Kernel::kSquaredExponential, GaussianForm::Kernel::kMatern}) {
    GaussianForm form = FormOf(3, false);
    form.kernel = kernel;
    form.is_category = {false, false, true};
    GaussianData data = Waves(30, 3);
    for (size_t i = 0; i < 30; ++i)
      data.coordinates[60 + i] = (0.5 + static_cast<double>(i % 4)) / 4;
    GaussianProcess process(form);
    const double before = process.Fit(data, 0, {});
    CHECK(process.Fit(data, 15, {}) < before);
    REQUIRE(process.Condition(data));
    const std::vector<double> x = {0.31, 0.77, 0.375};
    GaussianProcess::Slopes slopes;
    const GaussianProcess::Prediction at = process.At(x, slopes);
    CHECK(at.mean == process.At(x).mean);
    CHECK(at.variance == process.At(x).variance);
    constexpr double kStep = 1e-5;
    for (size_t k = 0; k < 2; ++k) {
      std::vector<double> below = x, above = x;
      below[k] -= kStep;
      above[k] += kStep;
      const auto low = process.At(below), high = process.At(above);
      CHECK(slopes.mean[k] == Approx((high.mean - low.mean) / (2 * kStep)).epsilon(1e-4));
      CHECK(slopes.variance[k] ==
            Approx((high.variance - low.variance) / (2 * kStep)).epsilon(1e-3).margin(1e-6));
    }
    CHECK((slopes.mean[2] == 0 && slopes.variance[2] == 0));
    // A category that no point has tells nothing but the trend of the others.
    CHECK(process.At({0.31, 0.77, 0.9}).variance > at.variance);
  }
}

TEST_CASE("improvement: it is the integral, its slopes are its own, and far below it is no zero") {
  for (const double z : {-30.0, -24.999, -8.0, -1.0, 0.0, 0.7, 3.0}) {
    INFO(z);
    const Hope at = HopeAt(z);
    constexpr double kStep = 1e-5;
    // d ln h / dz = Phi / h.
    CHECK(at.mass ==
          Approx((HopeAt(z + kStep).logarithm - HopeAt(z - kStep).logarithm) / (2 * kStep))
              .epsilon(1e-3));
    CHECK(std::isfinite(at.density));
  }
  CHECK(std::exp(HopeAt(0).logarithm) == Approx(0.3989422804014327));
  CHECK(std::exp(HopeAt(1).logarithm) == Approx(1.0833154705876864));
  CHECK(HopeAt(-1e6).logarithm < HopeAt(-1e5).logarithm);
  // The two formulas meet.
  CHECK(HopeAt(-25.000001).logarithm == Approx(HopeAt(-24.999999).logarithm).epsilon(1e-4));
}

TEST_CASE("evolution: it finds the minimum of a turned valley, and takes its shape") {
  const auto valley = [](const Point& x) {
    const double along = x[0] + x[1] - 0.9, across = x[0] - x[1] + 0.3;
    return along * along + 1e4 * across * across + (x[2] - 0.2) * (x[2] - 0.2);
  };
  Evolution evolution(3);
  evolution.Start({0.9, 0.9, 0.9}, 0.3, 12);
  double best = HUGE_VAL;
  for (uint64_t generation = 0; generation < 80; ++generation) {
    Rng rng(5, generation);
    std::vector<std::pair<double, Point>> ranked;
    for (size_t i = 0; i < evolution.population(); ++i) {
      const Point point = evolution.Draw(rng);
      for (const double each : point) REQUIRE((each >= 0 && each <= 1));
      ranked.emplace_back(valley(point), point);
    }
    std::sort(ranked.begin(), ranked.end());
    best = std::min(best, ranked[0].first);
    std::vector<Point> points;
    for (const auto& [value, point] : ranked) points.push_back(point);
    evolution.Update(points);
  }
  CHECK(best < 1e-10);
  CHECK(evolution.Reach() < 1e-3);
}

TEST_CASE("evolution: an axis keeps the deviation that it is to keep") {
  Evolution evolution(2);
  evolution.Start({0.5, 0.5}, 0.3, 8);
  for (uint64_t generation = 0; generation < 60; ++generation) {
    Rng rng(3, generation);
    std::vector<Point> points;
    for (size_t i = 0; i < 8; ++i) points.push_back(evolution.Draw(rng));
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return std::abs(a[0] - 0.5) + std::abs(a[1] - 0.5) <
             std::abs(b[0] - 0.5) + std::abs(b[1] - 0.5);
    });
    evolution.Update(points);
    evolution.KeepDeviations({0.05, 0});
  }
  Rng rng(4, 0);
  double first = 0, second = 0;
  for (int i = 0; i < 400; ++i) {
    const Point point = evolution.Draw(rng);
    first += std::abs(point[0] - evolution.mean()[0]) / 400;
    second += std::abs(point[1] - evolution.mean()[1]) / 400;
  }
  CHECK(first > 0.03);
  CHECK(second < 0.01);
}

TEST_CASE("evolution: a point that it could not have drawn does not throw it out of its course") {
  Evolution evolution(2);
  evolution.Start({0.5, 0.5}, 1e-6, 8);
  evolution.Update(std::vector<Point>(8, Point{1, 1}));
  CHECK(std::abs(evolution.mean()[0] - 0.5) < 1e-5);
  CHECK(evolution.Reach() < 1e-4);
}

TEST_CASE("surrogate: values of any scale give the same order, and the lowest promise is found") {
  Evolution around(1);
  around.Start({0.5}, 0.3, 8);
  const auto at_scale = [&](double factor, double offset) {
    std::vector<EvaluatedPoint> evaluated;
    for (int i = 0; i <= 10; ++i) {
      const double x = 0.1 * i;
      evaluated.push_back({{x}, factor * (x - 0.33) * (x - 0.33) + offset});
    }
    Surrogate surrogate(1);
    REQUIRE(surrogate.Fit(around, evaluated, {}));
    return surrogate;
  };
  const Surrogate plain = at_scale(1, 0), scaled = at_scale(1024, 0), shifted = at_scale(1, 64);
  for (const double x : {0.05, 0.31, 0.77}) {
    CHECK(plain.MeanAt({x}) == scaled.MeanAt({x}));
    CHECK(plain.LogImprovementAt({x}) == scaled.LogImprovementAt({x}));
    CHECK(plain.MeanAt({x}) == Approx(shifted.MeanAt({x})).margin(1e-3));
  }
  CHECK(plain.MeanAt({0.33}) < plain.MeanAt({0.25}));
  CHECK(plain.LogImprovementAt({0.34}) > plain.LogImprovementAt({0.9}));
}

TEST_CASE("surrogate: without a finite value there is no model, with one bad point there is") {
  Evolution around(1);
  around.Start({0.5}, 0.3, 8);
  Surrogate surrogate(1);
  CHECK_FALSE(surrogate.Fit(around, {{{0.1}, std::nan("")}, {{0.2}, HUGE_VAL}}, {}));
  CHECK(surrogate.Fit(around, {{{0.1}, 1}, {{0.2}, std::nan("")}, {{0.3}, 0.5}}, {}));
  CHECK(surrogate.MeanAt({0.3}) < surrogate.MeanAt({0.2}));
}
