// Costates, the knapsack, the policies and where ranks are placed.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/base/rng.h"
#include "common/elastic/allocation.h"
#include "common/elastic/costates.h"
#include "common/elastic/knapsack.h"
#include "common/elastic/submesh.h"

namespace rt {
namespace {

double Brute(const std::vector<std::vector<KnapsackItem>>& rows, size_t row, uint32_t left) {
  if (row == rows.size()) return 0;
  double best = Brute(rows, row + 1, left);
  for (const KnapsackItem& item : rows[row])
    if (item.weight <= left)
      best = std::max(best, item.value + Brute(rows, row + 1, left - item.weight));
  return best;
}

TEST_CASE("the knapsack finds what trying all combinations finds") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    std::vector<std::vector<KnapsackItem>> rows(1 + rng.Below(5));
    for (auto& row : rows)
      for (uint64_t i = rng.Below(4); i > 0; --i)
        row.push_back({static_cast<uint32_t>(1 + rng.Below(6)), 0.1 + rng.Uniform()});
    const auto capacity = static_cast<uint32_t>(rng.Below(14));
    const auto taken = SolveKnapsack(rows, capacity);
    double value = 0;
    uint32_t weight = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!taken[i].has_value()) continue;
      value += rows[i][*taken[i]].value;
      weight += rows[i][*taken[i]].weight;
    }
    CHECK(weight <= capacity);
    CHECK(value == Approx(Brute(rows, 0, capacity)));
  }
}

TEST_CASE("the hull of a speed curve is concave and above it") {
  const auto hull = ConcaveHull({{1, 1}, {2, 1.2}, {4, 3}, {8, 2.5}});
  REQUIRE(hull.size() == 2);
  CHECK(hull[0].units == 1);
  CHECK(hull[0].speed == 1);
  CHECK(hull[1].units == 3);
  CHECK(hull[1].speed == 2);
}

TEST_CASE("for speeds that are a power of the ranks the costates are the weights of heSRPT") {
  const double exponent = 0.5;
  std::vector<std::pair<double, double>> points;
  for (int i = 1; i <= 6400; ++i) points.emplace_back(i * 0.01, std::pow(i * 0.01, exponent));
  std::vector<CostateJob> jobs;
  for (double work : {40.0, 30.0, 20.0, 10.0}) jobs.push_back({work, ConcaveHull(points)});
  const std::vector<double> costates = Costates(jobs, 64);
  const double power = 1 / (1 - exponent);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto rank = static_cast<double>(i + 1);
    const double weight = std::pow(std::pow(rank, power) - std::pow(rank - 1, power), 1 - exponent);
    CHECK(costates[i] / costates[0] == Approx(weight).epsilon(0.01));
  }
}

TEST_CASE("the fluid schedule of one rank completes short jobs first, one after the other") {
  const std::vector<SpeedSegment> one{{1, 1}};
  const std::vector<CostateJob> jobs{{3, one}, {1, one}, {2, one}};
  const std::vector<double> ends = FluidCompletions(jobs, {1, 3, 2}, 1);
  CHECK(ends == std::vector<double>{6, 1, 3});
  const std::vector<double> costates = CostatesInOrder(jobs, {0, 2, 1}, 1);
  CHECK(costates[0] == Approx(1));
  CHECK(costates[2] == Approx(2));
  CHECK(costates[1] == Approx(3));
}

ElasticJob JobOf(uint32_t least, uint32_t most, uint32_t ranks = 0) {
  return {.ranks = ranks, .ranks_min = least, .ranks_max = most, .ranks_measured = 64};
}

TEST_CASE("an equal split gives every job the same, within its bounds") {
  ElasticRound round{.jobs = {JobOf(1, 8), JobOf(1, 2), JobOf(3, 8)}, .capacity = 12};
  CHECK(EqualSplit().Allocate(round) == std::vector<uint32_t>{5, 2, 5});
  round.capacity = 4;
  CHECK(EqualSplit().Allocate(round) == std::vector<uint32_t>{2, 2, 0});  // 3 fit beside nobody.
  CHECK(EqualSplit().Allocate({.jobs = {JobOf(1, 4)}, .capacity = 4}) == std::vector<uint32_t>{4});
}

TEST_CASE("no policy gives more than there is, nor less than a minimum or more than a maximum") {
  for (const ElasticPolicy* policy : {&EqualSplit(), &CostatePolicy()})
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Rng rng(seed);
      ElasticRound round{.capacity = static_cast<double>(1 + rng.Below(40)),
                         .ranks_per_node = static_cast<uint32_t>(1 + rng.Below(4)),
                         .arrival_s = 100 * rng.Uniform()};
      for (uint64_t i = 1 + rng.Below(8); i > 0; --i) {
        const auto least = static_cast<uint32_t>(1 + rng.Below(3));
        ElasticJob job = JobOf(least, least + static_cast<uint32_t>(rng.Below(9)));
        job.units = static_cast<double>(1 + rng.Below(2));
        job.ranks = rng.Chance(0.5) ? job.ranks_min : 0;
        if (seed % 2 == 0) job.priority = static_cast<int>(rng.Below(3));
        round.jobs.push_back(job);
      }
      const std::vector<uint32_t> sizes = policy->Allocate(round);
      double used = 0;
      bool is_above = false, is_starved = false;
      for (size_t i = 0; i < sizes.size(); ++i) {
        used += sizes[i] * round.jobs[i].units;
        CHECK((sizes[i] == 0 || sizes[i] >= round.jobs[i].ranks_min));
        CHECK(sizes[i] <= round.jobs[i].ranks_max);
        is_above = is_above || sizes[i] > round.jobs[i].ranks_min;
        is_starved =
            is_starved || (sizes[i] == 0 && round.jobs[i].units * round.jobs[i].ranks_min <= 1);
      }
      CHECK(used <= round.capacity);
      CHECK_FALSE((is_above && is_starved));
    }
}

TEST_CASE("every job gets its minimum before another gets more than its own") {
  // The short job is worth most with 4 ranks; the long ones have a claim to one each.
  ElasticRound round{.jobs = {JobOf(1, 4), JobOf(1, 4), JobOf(1, 4), JobOf(1, 4)}, .capacity = 4};
  CHECK(CostatePolicy().Allocate(round) == std::vector<uint32_t>{1, 1, 1, 1});
}

TEST_CASE("a job that is fixed keeps its size, and the others share the rest") {
  ElasticRound round{.jobs = {JobOf(1, 4, 3), JobOf(1, 4), JobOf(1, 4)}, .capacity = 5};
  round.jobs[0].is_fixed = true;
  CHECK(CostatePolicy().Allocate(round) == std::vector<uint32_t>{3, 1, 1});
  CHECK(EqualSplit().Allocate(round) == std::vector<uint32_t>{3, 1, 1});
}

TEST_CASE("beyond the minima a higher priority comes first, with every policy") {
  for (const ElasticPolicy* policy : {&EqualSplit(), &CostatePolicy()}) {
    CAPTURE(policy->name());
    ElasticRound round{.jobs = {JobOf(1, 4), JobOf(1, 4), JobOf(2, 4)}, .capacity = 8};
    round.jobs[1].priority = 5;
    const std::vector<uint32_t> sizes = policy->Allocate(round);
    CHECK(sizes[1] == 4);
    CHECK(sizes[0] + sizes[2] == 4);
    round.jobs[0].priority = 9;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{4, 2, 2});
    // The minima first, and those of the higher priority before others.
    round.capacity = 4;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{1, 1, 2});
    round.capacity = 3;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{2, 1, 0});
    round.jobs[2].priority = 10;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{1, 0, 2});
    // A minimum that does not fit keeps nothing from the others.
    round.capacity = 5;
    round.jobs[0] = JobOf(4, 4);
    round.jobs[0].priority = -1;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{0, 1, 4});
  }
}

TEST_CASE("what the highest priority cannot use is shared out among the others") {
  for (const ElasticPolicy* policy : {&EqualSplit(), &CostatePolicy()}) {
    ElasticRound round{.jobs = {JobOf(1, 8), JobOf(1, 2), JobOf(1, 8)}, .capacity = 8};
    round.jobs[1].priority = 1;
    const std::vector<uint32_t> sizes = policy->Allocate(round);
    CHECK(sizes[1] == 2);
    CHECK(sizes[0] + sizes[2] == 6);
    round.jobs[2].ranks = 4;  // Fixed: not even the highest priority gets what it has.
    round.jobs[2].is_fixed = true;
    round.jobs[1].ranks_max = 8;
    CHECK(policy->Allocate(round) == std::vector<uint32_t>{1, 3, 4});
  }
}

TEST_CASE("a restart that costs more than it brings is not done") {
  ElasticJob job = JobOf(1, 4, 2);
  job.restart_s = 1;
  ElasticRound round{.jobs = {job}, .capacity = 4, .ranks_per_node = 4};
  CHECK(CostatePolicy().Allocate(round) == std::vector<uint32_t>{4});
  round.jobs[0].restart_s = 600;
  CHECK(CostatePolicy().Allocate(round) == std::vector<uint32_t>{2});
}

TEST_CASE("of two jobs with equal speeds the shorter one gets more") {
  std::vector<StepPoint> points;
  for (uint32_t ranks : {1u, 2u, 4u, 8u})
    points.push_back({ranks, ranks, 32, 0, "", 10, 0.1 + 0.01 * ranks, 0, 0.01 * ranks, 0});
  const Speed speed({32, 1024, 8, 64, true}, points);
  ElasticRound round{.capacity = 8};
  for (double total : {100'000.0, 10'000.0}) {
    ElasticJob job = JobOf(1, 8);
    job.speed = &speed;
    job.noise = {1, 50};
    job.total = total;
    round.jobs.push_back(job);
  }
  const std::vector<uint32_t> sizes = CostatePolicy().Allocate(round);
  CHECK(sizes[1] > sizes[0]);
}

TEST_CASE("jobs of whole nodes share none, and a job stays where it is while its size stays") {
  const SubmeshCluster cluster{3, 4};
  const auto first = PlaceSubmeshes(cluster, {{}, {}, {}}, {4, 2, 1});
  CHECK(first[0] == RankNodes{0, 0, 0, 0});
  CHECK(first[1] == RankNodes{1, 1});
  CHECK(first[2] == RankNodes{1});
  const auto second = PlaceSubmeshes(cluster, first, {8, 2, 1});
  CHECK(second[0] == RankNodes{0, 0, 0, 0, 2, 2, 2, 2});
  CHECK(second[1] == first[1]);
}

TEST_CASE("small jobs move only where a larger one would not fit otherwise") {
  const SubmeshCluster cluster{2, 4};
  const auto placed = PlaceSubmeshes(cluster, {{0}, {1}, {}}, {1, 1, 4});
  size_t used[2] = {0, 0};
  for (const RankNodes& nodes : placed)
    for (uint32_t node : nodes) ++used[node];
  CHECK(placed[2].size() == 4);
  CHECK(used[0] <= 4);
  CHECK(used[1] <= 4);
  CHECK(placed[0].size() == 1);
  CHECK(placed[1].size() == 1);
}

}  // namespace
}  // namespace rt
