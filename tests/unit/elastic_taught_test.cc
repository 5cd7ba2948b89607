// What a class of jobs has taught, made from their profiles.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

#include "common/base/limits_elastic.h"
#include "common/base/rng.h"
#include "common/elastic/taught.h"

using namespace rt;

namespace {

// Steps of a job whose gradients take `each` seconds for 16 samples and whose sum takes `sync`.
ElasticProfile ProfileOf(double each, double sync, uint32_t ranks_most, double progress = 100) {
  ElasticProfile profile{.batches = {.initial = 16, .most = 256, .local_min = 16, .local_max = 64},
                         .noise = {.squared_norm = 0.001, .variance = 1},
                         .progress = progress};
  for (uint32_t ranks = 1; ranks <= ranks_most; ranks *= 2) {
    StepPoint point{.nodes = 1, .ranks = ranks, .local_batch = 16, .count = 50};
    point.sync_mean = ranks == 1 ? 0 : sync;
    point.step_mean = each + point.sync_mean;
    profile.points.push_back(point);
  }
  return profile;
}

}  // namespace

TEST_CASE("taught: a new job begins with its class, and its own profile counts more") {
  const Taught taught =
      TeachClass({{ProfileOf(0.1, 0.001, 4, 700), true}, {ProfileOf(0.1, 0.001, 2)}});
  REQUIRE(taught.speed != nullptr);
  CHECK(taught.memory.ended == 1);
  ElasticJob fresh{.ranks = 1, .ranks_max = 8};
  ViewJob(taught, nullptr, fresh);
  CHECK(fresh.speed == taught.speed.get());
  CHECK(fresh.ranks_measured == 4);
  CHECK(fresh.progress == 0);
  CHECK(fresh.total == Approx(700));
  ElasticProfile own = ProfileOf(0.2, 0.002, 1, 40);
  own.total = 5'000;
  own.noise = {.squared_norm = 0.5, .variance = 2};
  ElasticJob job{.ranks = 1, .ranks_max = 8};
  ViewJob(taught, &own, job);
  CHECK(job.progress == 40);
  CHECK(job.total == 5'000);
  CHECK(job.noise == own.noise);
  CHECK(job.slowness == Approx(2).epsilon(0.01));
  own.noise_weight = 0;  // Not measured yet.
  ViewJob(taught, &own, job);
  CHECK(job.noise == taught.memory.noise);
}

TEST_CASE("taught: without measurements a job may have any size, and an older unit is left out") {
  ElasticJob job{.ranks = 1, .ranks_max = 8};
  ViewJob(TeachClass({}), nullptr, job);
  CHECK(job.speed == nullptr);
  CHECK(job.ranks_measured == 8);
  ElasticProfile before = ProfileOf(0.1, 0.001, 4);
  before.batches.initial = 8;
  const Taught taught = TeachClass({{before, true}, {ProfileOf(0.3, 0.001, 1)}});
  CHECK(taught.memory.points.size() == 1);
  CHECK(taught.memory.ended == 0);
  ViewJob(taught, &before, job);  // Its progress counts in other units.
  CHECK(job.progress == 0);
}

TEST_CASE("taught: whatever is valid is fitted in bounded time, and gives finite numbers") {
  Rng rng(5);
  const auto began = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round) {
    std::vector<ClassRecord> records;
    for (int i = 0; i < 4; ++i) {
      ElasticProfile profile = ProfileOf(0.1, 0.001, 1);
      profile.points.clear();
      for (size_t n = 1 + rng.Below(limits::kProfilePointsMax); n > 0; --n) {
        StepPoint point{.nodes = 1, .count = 1 + rng.Below(1'000'000)};
        point.ranks = static_cast<uint32_t>(1 + rng.Below(1'024));
        point.nodes = static_cast<uint32_t>(1 + rng.Below(point.ranks));
        point.local_batch = static_cast<uint32_t>(1 + rng.Below(1'000'000));
        point.step_mean = std::pow(10.0, static_cast<double>(rng.Below(300)) / 10 - 24);
        point.step_variance = std::pow(10.0, static_cast<double>(rng.Below(30)) - 15);
        point.sync_mean = point.step_mean * 0.999 * static_cast<double>(rng.Below(2));
        MergePoints(profile.points, {point}, limits::kProfilePointsMax);
      }
      REQUIRE(CheckProfile(profile).ok());
      records.push_back({profile, i % 2 == 0});
    }
    const Taught taught = TeachClass(records);
    ElasticRound policy{.capacity = 16, .ranks_per_node = 4, .arrival_s = 10};
    for (const ClassRecord& record : records)
      ViewJob(taught, &record.profile,
              policy.jobs.emplace_back(ElasticJob{.ranks = 1, .ranks_max = 8}));
    double used = 0;
    for (uint32_t size : CostatePolicy().Allocate(policy)) used += size;
    CHECK(used <= 16);
    const double speed_up = JobCurve(policy.jobs[0], 4).SpeedUp(2);
    CHECK(std::isfinite(speed_up));
    // The same records give the same numbers.
    CHECK(TeachClass(records).memory == taught.memory);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  CHECK(took.count() < 100);
}
