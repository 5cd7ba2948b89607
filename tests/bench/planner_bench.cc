// How long the head takes to decide which machines to ask for (head/autoscale/planner.h): 10 000
// waiting trials of 50 shapes, 100 pools, and the free capacity of 1 000 nodes. "planned": from the
// start; "replanned": after one trial more, while what was asked for is on
// its way. Each is the median of kRounds, with the worst beside it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "common/base/check.h"
#include "head/autoscale/planner.h"

namespace rt::bench {
namespace {

constexpr size_t kShapes = 50, kDemands = 10'000, kPools = 100, kNodes = 1'000, kRounds = 101;

// Cpus and gpus of a node of the pool, from 2 cpus on; every third pool has gpus.
PoolNow PoolOf(size_t i) {
  const auto step = static_cast<int64_t>(i);
  const Resources each{.cpu = (2 + step % 31) * kUnit,
                       .gpu = i % 3 == 0 ? (1 + step % 8) * kUnit : 0,
                       .memory = Bytes{(4 + step) << 30}};
  PoolSpec spec{.name = "pool" + std::to_string(i), .each = each, .max_workers = 200};
  spec.upscaling_speed = 100;
  return {.spec = std::move(spec), .each = each, .live = 20};  // All ready, and busy.
}

// One cpu and more; every fourth shape wants gpus, every tenth is a gang of 4 ranks.
ResourceRequest ShapeOf(size_t i) {
  const auto step = static_cast<int64_t>(i);
  const Resources each{.cpu = (1 + step % 16) * kUnit,
                       .gpu = i % 4 == 0 ? (1 + step % 4) * kUnit : 0,
                       .memory = Bytes{(1 + step % 8) << 30}};
  if (i % 10 != 5) return {.bundles = {each}};
  return {.bundles = std::vector<Resources>(4, each), .ranks = 4};
}

void Measure(const char* what, double bar, const std::function<std::vector<size_t>()>& plan) {
  std::vector<double> times;
  size_t nodes = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<size_t> wanted = plan();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count());
    nodes = 0;
    for (size_t count : wanted) nodes += count;
  }
  std::sort(times.begin(), times.end());
  std::printf("BENCH planner_%s %.3f ms bar <=%.0f peer none\n", what, times[kRounds / 2], bar);
  std::printf("# worst %.3f ms of %zu; %zu demands of %zu shapes, %zu pools, %zu new nodes\n",
              times.back(), kRounds, kDemands, kShapes, kPools, nodes);
}

void Run() {
  std::vector<PoolNow> pools;
  for (size_t i = 0; i < kPools; ++i) pools.push_back(PoolOf(i));
  std::vector<Demand> demands;
  for (size_t i = 0; i < kShapes; ++i) demands.push_back({ShapeOf(i), kDemands / kShapes});
  std::vector<FreeCapacity> soon;
  for (size_t i = 0; i < kNodes; ++i) soon.push_back(EmptyNode({.cpu = kUnit / 2}));
  Measure("planned", 10, [&] { return PlanNewNodes(pools, soon, demands); });
  const std::vector<size_t> asked = PlanNewNodes(pools, soon, demands);
  for (size_t i = 0; i < kPools; ++i) {
    pools[i].pending = asked[i];
    pools[i].live += asked[i];
  }
  ++demands[7].count;
  Measure("replanned", 1, [&] { return PlanNewNodes(pools, soon, demands); });
}

}  // namespace
}  // namespace rt::bench

int main() {
  rt::bench::Run();
  return 0;
}
