#include "head/autoscale/planner.h"

#include <algorithm>
#include <cmath>

namespace rt {
namespace {

// Ray's bound for a small cluster: max(5, upscaling_speed * ready).
constexpr double kPendingLeast = 5;

size_t Lacking(const PoolNow& pool) {
  const size_t least = pool.spec.min_workers;
  return pool.may_request && least > pool.live ? least - pool.live : 0;
}

size_t MayAdd(const PoolNow& pool) {
  if (!pool.may_request || pool.live >= pool.spec.max_workers) return 0;
  const double ready = static_cast<double>(pool.live - std::min(pool.live, pool.pending));
  const double allowed = std::max(kPendingLeast, std::ceil(pool.spec.upscaling_speed * ready));
  const double left = std::max(0.0, allowed - static_cast<double>(pool.pending));
  const auto most = static_cast<double>(pool.spec.max_workers - pool.live);
  return static_cast<size_t>(std::min(most, left));
}

class Planner {
 public:
  Planner(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon)
      : pools_(pools), bins_(std::move(soon)) {
    for (FreeCapacity& bin : bins_) bin.id = NextId();
    for (const PoolNow& pool : pools_) {
      const size_t lacking = Lacking(pool);
      added_.push_back(lacking);
      left_.push_back(MayAdd(pool) - std::min(MayAdd(pool), lacking));
      for (size_t i = 0; i < lacking; ++i) AddBin(pool);
    }
  }

  // False when neither the bins nor new nodes hold it: nor will they hold another one like it.
  bool Meet(const ResourceRequest& wanted) {
    if (Pack(wanted)) return true;
    std::vector<size_t> order(pools_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    // Cpu work stays off pools with gpus while another pool can hold it.
    const bool needs_gpu = wanted.Total().gpu > 0;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return !needs_gpu && pools_[a].each.gpu == 0 && pools_[b].each.gpu > 0;
    });
    return std::any_of(order.begin(), order.end(), [&](size_t pool) { return Grow(pool, wanted); });
  }

  std::vector<size_t> Take() { return std::move(added_); }

 private:
  // Packing tells them apart by their ids, which new nodes do not have yet.
  NodeId NextId() { return NodeId{next_id_++}; }
  void AddBin(const PoolNow& pool) {
    bins_.push_back(EmptyNode(pool.each));
    bins_.back().id = NextId();
  }
  bool Pack(const ResourceRequest& wanted) {
    for (FreeCapacity& bin : bins_) bin.taken = 0;
    return PackAll(bins_, wanted).has_value();
  }
  // By as few nodes of this pool as possible, or by none.
  bool Grow(size_t pool, const ResourceRequest& wanted) {
    const size_t before = bins_.size(), most = std::min(left_[pool], wanted.bundles.size());
    for (size_t count = 1; count <= most; ++count) {
      AddBin(pools_[pool]);
      if (!Pack(wanted)) continue;
      added_[pool] += count;
      left_[pool] -= count;
      return true;
    }
    bins_.resize(before);
    return false;
  }

  const std::vector<PoolNow>& pools_;
  std::vector<FreeCapacity> bins_;
  std::vector<size_t> added_, left_;
  uint64_t next_id_ = 1;
};

}  // namespace

FreeCapacity EmptyNode(const Resources& each) {
  FreeCapacity node{.free = each};
  int64_t units = each.gpu;
  for (uint32_t index = 0; units > 0; ++index, units -= kUnit)
    node.devices.push_back({.index = index, .units = std::min(units, kUnit)});
  return node;
}

bool PoolCouldHold(const PoolNow& pool, const ResourceRequest& wanted) {
  const size_t count = std::min<size_t>(pool.spec.max_workers, wanted.bundles.size());
  std::vector<FreeCapacity> nodes(count, EmptyNode(pool.each));
  return Packing(wanted).Run(nodes) == wanted.bundles.size();
}

std::vector<size_t> PlanNewNodes(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon,
                                 const std::vector<Demand>& demands) {
  Planner planner(pools, std::move(soon));
  for (const Demand& demand : demands)
    for (size_t i = 0; i < demand.count; ++i)
      if (!planner.Meet(demand.wanted)) break;
  return planner.Take();
}

}  // namespace rt
