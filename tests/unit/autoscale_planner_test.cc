#include <catch2/catch.hpp>

#include "common/spec/gpu_type.h"
#include "head/autoscale/planner.h"

namespace rt {
namespace {

Resources Cpus(int64_t count) { return {.cpu = count * kUnit}; }
Demand Want(Resources each, size_t count) { return {{.bundles = {std::move(each)}}, count}; }

PoolNow Make(const std::string& name, Resources each, uint32_t least, uint32_t most) {
  return {.spec = {.name = name, .each = each, .min_workers = least, .max_workers = most},
          .each = each};
}
using Counts = std::vector<size_t>;

TEST_CASE("planner: max_workers of the cluster holds for all pools together") {
  const std::vector<PoolNow> pools = {Make("small", Cpus(1), 1, 4), Make("big", Cpus(4), 1, 4)};
  const std::vector<Demand> demands = {Want(Cpus(4), 3), Want(Cpus(1), 3)};
  CHECK(PlanNewNodes(pools, {}, demands) == Counts{3, 3});
  CHECK(PlanNewNodes(pools, {}, demands, 3) == Counts{1, 2});
  CHECK(PlanNewNodes(pools, {}, demands, 1) == Counts{1, 0});  // Of min_workers as well.
  CHECK(PlanNewNodes(pools, {}, demands, 0) == Counts{0, 0});
  std::vector<PoolNow> grown = pools;
  grown[0].live = 3;
  CHECK(PlanNewNodes(grown, {}, demands, 4) == Counts{0, 1});
  CHECK(PlanNewNodes(grown, {}, demands, 2) == Counts{0, 0});  // It was lowered.
}

TEST_CASE("planner: of the types that a request may have, the first that there can be is wanted") {
  const Resources gpus = {.cpu = 4 * kUnit, .gpu = 2 * kUnit};
  Resources old = gpus, fresh = gpus;
  AddGpuType(old, "V100");
  AddGpuType(fresh, "H100");
  std::vector<PoolNow> pools = {Make("old", old, 0, 4), Make("new", fresh, 0, 1)};
  Demand demand = Want({.gpu = kUnit}, 2);
  demand.wanted.gpu_types = {"H200", "H100", "V100"};
  CHECK(PlanNewNodes(pools, {}, {demand}) == Counts{0, 1});
  demand.wanted.gpu_types = {"V100"};
  CHECK(PlanNewNodes(pools, {}, {demand}) == Counts{1, 0});
  demand.wanted.gpu_types = {"H200"};
  CHECK(PlanNewNodes(pools, {}, {demand}) == Counts{0, 0});
  CHECK(CountUnmet({}, {demand}) == 2);
  CHECK_FALSE(PoolCouldHold(pools[0], demand.wanted));
  demand.wanted.gpu_types = {"H100", "V100"};
  CHECK(PoolCouldHold(pools[0], demand.wanted));
}

TEST_CASE("planner: nodes that drain do not meet min_workers, those that end count for the most") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 2, 4)};
  pools[0].live = 2;
  CHECK(PlanNewNodes(pools, {}, {}) == Counts{0});
  pools[0].leaving = 1;
  CHECK(PlanNewNodes(pools, {}, {}) == Counts{1});
  pools[0].ending = 1;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 5)}) == Counts{1});  // Four are there with it.
  pools[0].ending = 2;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 5)}) == Counts{0});
  CHECK(PlanNewNodes(pools, {}, {}, 4) == Counts{0});
}

TEST_CASE("planner: the upscaling speed does not hold for a pool in a hurry") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 0, 30)};
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 20)}) == Counts{5});
  pools[0].is_hurried = true;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 20)}) == Counts{20});
}

TEST_CASE("planner: bundles that nodes cannot hold are counted") {
  const std::vector<FreeCapacity> nodes = {EmptyNode(Cpus(4)), EmptyNode(Cpus(1))};
  CHECK(CountUnmet(nodes, {Want(Cpus(2), 2), Want(Cpus(1), 1)}) == 0);
  CHECK(CountUnmet(nodes, {Want(Cpus(2), 3), Want(Cpus(1), 1)}) == 1);
  CHECK(CountUnmet({}, {Want(Cpus(1), 7)}) == 7);
}

TEST_CASE("planner: a gang grows within max_workers of the cluster, or not at all") {
  const std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 0, 4)};
  const ResourceRequest pair = {.bundles = {Cpus(1), Cpus(1)}, .ranks = 2};
  CHECK(PlanNewNodes(pools, {}, {{pair, 2}}, 3) == Counts{2});
  CHECK(PlanNewNodes(pools, {}, {{pair, 2}}, 1) == Counts{0});
  CHECK(PlanNewNodes(pools, {}, {{pair, 2}, Want(Cpus(1), 5)}, 3) == Counts{3});
}

TEST_CASE("planner: a shape that one pool cannot hold goes to the next one") {
  const std::vector<PoolNow> pools = {Make("small", Cpus(1), 0, 2), Make("big", Cpus(4), 0, 2)};
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(2), 3)}) == Counts{0, 2});
  const ResourceRequest pair = {.bundles = {Cpus(3), Cpus(3)}, .ranks = 2};
  CHECK(PlanNewNodes(pools, {}, {{pair, 1}, Want(Cpus(1), 3)}) == Counts{1, 2});
}

TEST_CASE("planner: singles and gangs share what is free") {
  const std::vector<PoolNow> pools = {Make("cpu", Cpus(2), 0, 9)};
  const ResourceRequest pair = {.bundles = {Cpus(1), Cpus(1)}, .ranks = 2};
  const FreeCapacity four = EmptyNode(Cpus(4));
  CHECK(PlanNewNodes(pools, {four}, {Want(Cpus(1), 2), {pair, 1}}) == Counts{0});
  CHECK(PlanNewNodes(pools, {four}, {Want(Cpus(1), 3), {pair, 1}, Want(Cpus(1), 1)}) == Counts{1});
}

TEST_CASE("planner: what waits is packed into as few nodes as hold it") {
  const std::vector<PoolNow> pools = {Make("cpu", Cpus(4), 0, 10)};
  CHECK(PlanNewNodes(pools, {}, {}) == Counts{0});
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 4)}) == Counts{1});
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(3), 2), Want(Cpus(1), 2)}) == Counts{2});
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(5), 3)}) == Counts{0});  // It never fits.
}

TEST_CASE("planner: what will be free soon is used first") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(4), 0, 10)};
  pools[0].live = pools[0].pending = 1;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 4)}) == Counts{0});  // The pending machine.
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 5)}) == Counts{1});
  CHECK(PlanNewNodes(pools, {EmptyNode(Cpus(4))}, {Want(Cpus(1), 8)}) == Counts{0});
  CHECK(PlanNewNodes(pools, {EmptyNode(Cpus(4))}, {Want(Cpus(1), 9)}) == Counts{1});
}

TEST_CASE("planner: min_workers are asked for without demand, max_workers never exceeded") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 2, 4)};
  CHECK(PlanNewNodes(pools, {}, {}) == Counts{2});
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 100)}) == Counts{4});
  pools[0].live = 3;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 100)}) == Counts{1});
  pools[0].live = 5;  // The configuration has changed.
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 100)}) == Counts{0});
}

TEST_CASE("planner: a pool with an open request, or one that failed, is not asked again") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 2, 4)};
  pools[0].may_request = false;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 3)}) == Counts{0});
}

TEST_CASE("planner: the upscaling speed bounds what is on its way, but not min_workers") {
  std::vector<PoolNow> pools = {Make("cpu", Cpus(1), 0, 1'000)};
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 500)}) == Counts{5});
  pools[0].live = 40;  // All of them ready.
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 500)}) == Counts{40});
  pools[0].spec.upscaling_speed = 2.5;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 500)}) == Counts{100});
  pools[0].pending = 10;
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 500)}) == Counts{65});
  pools[0] = Make("cpu", Cpus(1), 50, 1'000);
  CHECK(PlanNewNodes(pools, {}, {}) == Counts{50});
}

TEST_CASE("planner: cpu work stays off pools with gpus while another pool can hold it") {
  const Resources gpu{.cpu = 8 * kUnit, .gpu = 2 * kUnit};
  const std::vector<PoolNow> pools = {Make("gpu", gpu, 0, 10), Make("cpu", Cpus(2), 0, 1)};
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 2)}) == Counts{0, 1});
  CHECK(PlanNewNodes(pools, {}, {Want(Cpus(1), 3)}) == Counts{1, 1});
  CHECK(PlanNewNodes(pools, {}, {Want({.cpu = kUnit, .gpu = kUnit}, 3)}) == Counts{2, 0});
}

TEST_CASE("planner: a gang gets all of its nodes or none") {
  const std::vector<PoolNow> pools = {Make("cpu", Cpus(2), 0, 3)};
  const ResourceRequest four{.bundles = std::vector<Resources>(4, Cpus(1)), .ranks = 4};
  CHECK(PlanNewNodes(pools, {}, {{four, 1}}) == Counts{2});
  CHECK(PlanNewNodes(pools, {}, {{four, 2}}) == Counts{2});
  ResourceRequest spread = four;
  spread.strategy = Strategy::kStrictSpread;
  CHECK(PlanNewNodes(pools, {}, {{spread, 1}}) == Counts{0});
  CHECK(PlanNewNodes(pools, {}, {{spread, 1}, Want(Cpus(2), 1)}) == Counts{1});
  CHECK(!PoolCouldHold(pools[0], spread));
  CHECK(PoolCouldHold(pools[0], four));
}

}  // namespace
}  // namespace rt
