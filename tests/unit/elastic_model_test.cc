// The throughput model, goodput, and what is remembered of a class of jobs.
#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/rng.h"
#include "common/elastic/class_memory.h"
#include "common/elastic/profile.h"
#include "common/elastic/speed.h"
#include "common/elastic/throughput.h"

namespace rt {
namespace {

const StepParameters kTrue{0.05, 0.002, 0.12, 0.004, 0.03, 0.006, 2.2};

StepPoint PointOf(const StepParameters& parameters, uint32_t nodes, uint32_t ranks, uint32_t batch,
                  double noise = 1) {
  const double gradient = parameters.Gradient(batch);
  const double step = parameters.Step(nodes, ranks, batch);
  return {.nodes = nodes,
          .ranks = ranks,
          .local_batch = batch,
          .count = 20,
          .step_mean = step * noise,
          .sync_mean = (step - gradient) * noise};
}

TEST_CASE("the gradient of the fit's loss is that of finite differences") {
  std::vector<StepObservation> observations;
  for (uint32_t ranks : {1u, 2u, 4u, 8u})
    for (uint32_t batch : {8u, 32u, 64u})
      observations.push_back({ranks > 4 ? 2u : 1u, ranks, batch, 0.05 + 0.003 * batch,
                              0.06 + 0.004 * batch + 0.02 * ranks, 1.0 / ranks});
  const std::vector<double> x{-3, -6, -2, -4, -3.5, -5, 2.5};
  std::vector<double> gradient, ignored;
  StepLoss(observations, x, gradient);
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<double> above = x, below = x;
    above[i] += 1e-6;
    below[i] -= 1e-6;
    const double difference =
        (StepLoss(observations, above, ignored) - StepLoss(observations, below, ignored)) / 2e-6;
    CHECK(gradient[i] == Approx(difference).margin(1e-6).epsilon(1e-4));
  }
}

TEST_CASE("step times are predicted within 10 % where nothing was measured, with 10 % noise") {
  double worst_mean = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Rng rng(seed);
    std::vector<StepPoint> points;
    for (uint32_t ranks : {1u, 2u, 4u, 8u, 16u})
      for (uint32_t batch : {16u, 32u, 64u, 128u})
        points.push_back(
            PointOf(kTrue, ranks > 4 ? ranks / 4 : 1, ranks, batch, 1 + 0.1 * rng.Normal() / 2));
    const StepTimes times(points);
    double error = 0;
    int count = 0;
    for (uint32_t ranks : {3u, 12u, 24u, 32u})
      for (double batch : {24.0, 48.0, 100.0}) {
        const uint32_t nodes = (ranks + 3) / 4;
        const double predicted = times.Of(nodes, ranks, {batch}).front().step_s;
        error += std::abs(predicted / kTrue.Step(nodes, ranks, batch) - 1);
        ++count;
      }
    worst_mean = std::max(worst_mean, error / count);
  }
  CHECK(worst_mean < 0.10);
}

TEST_CASE("a badly measured shape weighs less in the fit") {
  StepPoint good = PointOf(kTrue, 1, 1, 32), bad = good;
  bad.local_batch = 64;
  bad.count = 1;
  bad.step_variance = good.step_mean * good.step_mean;
  const std::vector<StepObservation> seen = ObservationsOf({good, bad});
  CHECK(seen[0].weight == 1);
  CHECK(seen[1].weight < 0.01);
}

TEST_CASE("a gang on several nodes that was never seen is slower than one within a node") {
  std::vector<StepPoint> points;
  for (uint32_t ranks : {1u, 2u, 4u}) points.push_back(PointOf(kTrue, 1, ranks, 32));
  const StepTimes times(points);
  CHECK(times.Of(2, 8, {32}).front().step_s > times.Of(1, 8, {32}).front().step_s);
}

TEST_CASE("the gain of a larger batch is that of AdaScale") {
  const GradientNoise noise{0.5, 2};
  CHECK(noise.Gain(1) == Approx(1));
  CHECK(noise.Gain(4) == Approx(2.5 / (0.5 + 0.5)));
  CHECK(GradientNoise{1, 0}.Gain(16) == Approx(1));   // No noise: no gain.
  CHECK(GradientNoise{0, 1}.Gain(16) == Approx(16));  // Noise alone: all of it.
}

TEST_CASE("more ranks are never slower while steps cost no synchronisation") {
  std::vector<StepPoint> points;
  for (uint32_t ranks : {1u, 2u, 4u})
    for (uint32_t batch : {16u, 64u})
      points.push_back({.nodes = 1,
                        .ranks = ranks,
                        .local_batch = batch,
                        .count = 10,
                        .step_mean = 0.01 * batch,
                        .sync_mean = 1e-6});
  const Speed speed(
      {.initial = 64, .most = 4096, .local_min = 8, .local_max = 128, .accumulates = true}, points);
  double before = 0;
  for (uint32_t ranks : {1u, 2u, 3u, 4u, 8u}) {
    const double rate = speed.Rate({1, 20}, 1, ranks);
    CHECK(rate > before);
    before = rate;
  }
  CHECK(speed.Rate({1, 20}, 1, 1024) == 0);  // Not even the smallest local batch fits.
}

TEST_CASE("a single rank trains with more than the initial batch by accumulation only") {
  for (const BatchCandidate& one : BatchCandidates({64, 4096, 8, 128, true}, 1)) {
    CHECK(one.local_batch <= 128);
    CHECK((one.scale <= 1 || one.accumulation > 0));
  }
  for (const BatchCandidate& one : BatchCandidates({64, 4096, 8, 128, false}, 1))
    CHECK(one.local_batch == 64);
}

TEST_CASE("merged measurements have the mean and the variance of all of them") {
  std::vector<StepPoint> points{{1, 1, 8, 0, "", 2, 1.0, 0.25, 0.1, 0}};
  MergePoints(points, {{1, 1, 8, 0, "", 2, 2.0, 0.25, 0.3, 0}}, 8);
  REQUIRE(points.size() == 1);
  CHECK(points[0].count == 4);
  CHECK(points[0].step_mean == Approx(1.5));
  CHECK(points[0].step_variance == Approx(0.5));
  CHECK(points[0].sync_mean == Approx(0.2));
}

TEST_CASE("a full profile drops the shape that was measured least, but none of the new ones") {
  std::vector<StepPoint> points{{1, 1, 8, 0, "", 50, 1, 0, 0, 0}, {1, 1, 9, 0, "", 2, 1, 0, 0, 0}};
  MergePoints(points, {{1, 2, 8, 0, "", 1, 1, 0, 0, 0}}, 2);
  REQUIRE(points.size() == 2);
  CHECK(points[0].local_batch == 8);
  CHECK(points[1].ranks == 2);
}

TEST_CASE("times that no step can have are no measurement") {
  const StepPoint good = PointOf(kTrue, 1, 2, 16);
  CHECK(IsValid(good));
  StepPoint bad = good;
  bad.sync_mean = bad.step_mean;
  CHECK_FALSE(IsValid(bad));
  bad = good;
  bad.step_mean = NAN;
  CHECK_FALSE(IsValid(bad));
  bad = good;
  bad.nodes = 3;
  CHECK_FALSE(IsValid(bad));
}

TEST_CASE("a job that is twice as slow as its class is known to be, and does not change it") {
  ClassMemory memory;
  ElasticProfile first{.batches = {64, 4096, 8, 128, true}};
  for (uint32_t ranks : {1u, 2u, 4u}) first.points.push_back(PointOf(kTrue, 1, ranks, 32));
  memory.Learn(first, 1);
  const Speed speed(memory.batches, memory.points);
  std::vector<StepPoint> slow{PointOf(kTrue, 1, 2, 32, 2)};
  const double slowness = SlownessOf(memory, speed, slow);
  CHECK(slowness == Approx(2));
  const double before = memory.points[1].step_mean;
  memory.Learn({.batches = first.batches, .points = slow}, slowness);
  CHECK(memory.points[1].step_mean == Approx(before));
  CHECK(memory.MostRanks() == 4);
}

TEST_CASE("the expected length of a job is the geometric mean of those that ended") {
  ClassMemory memory;
  memory.most_progress = 100;
  CHECK(memory.ExpectedTotal(10, 1) == Approx(610));  // Nothing has ended: 10 minutes more.
  CHECK(memory.ExpectedTotal(10, 0.01) == Approx(200));
  memory.LearnEnd(100);
  memory.LearnEnd(400);
  CHECK(memory.ExpectedTotal(10, 1) == Approx(200));
  CHECK(memory.ExpectedTotal(300, 1) == Approx(360));  // It is longer than those.
}

}  // namespace
}  // namespace rt
