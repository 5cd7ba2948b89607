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

// The bundles of a request without their gpus, which are taken device by device.
std::vector<Resources> WithoutGpus(const ResourceRequest& wanted) {
  std::vector<Resources> bundles = wanted.bundles;
  for (Resources& bundle : bundles) bundle.gpu = 0;
  return bundles;
}

class Planner {
 public:
  Planner(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon,
          std::optional<uint32_t> max_workers)
      : pools_(pools), bins_(std::move(soon)) {
    // Packing tells them apart by their ids, which new nodes do not have yet.
    for (size_t i = 0; i < bins_.size(); ++i) bins_[i].id = IdOf(i);
    size_t live = 0;
    for (const PoolNow& pool : pools_) live += pool.live;
    const size_t most = max_workers.value_or(SIZE_MAX);
    left_in_all_ = most - std::min(most, live);
    for (const PoolNow& pool : pools_) {
      empty_.push_back(EmptyNode(pool.each));
      const size_t lacking = std::min(Lacking(pool), left_in_all_), more = MayAdd(pool);
      left_in_all_ -= lacking;
      added_.push_back(lacking);
      left_.push_back(more - std::min(more, lacking));
      for (size_t i = 0; i < lacking; ++i) AddBin(added_.size() - 1);
    }
    for (size_t i = 0; i < pools_.size(); ++i) order_.push_back(i);
    without_gpus_first_ = order_;
    std::stable_sort(
        without_gpus_first_.begin(), without_gpus_first_.end(),
        [&](size_t a, size_t b) { return pools_[a].each.gpu == 0 && pools_[b].each.gpu > 0; });
  }

  void Meet(const Demand& demand) {
    if (demand.wanted.bundles.size() == 1) MeetSingle(demand);
    else MeetGangs(demand);
  }

  std::vector<size_t> Take() { return std::move(added_); }

 private:
  static NodeId IdOf(size_t bin) { return NodeId{bin + 1}; }
  static size_t BinOf(NodeId id) { return id.value - 1; }

  FreeCapacity& AddBin(size_t pool) {
    bins_.push_back(empty_[pool]);
    bins_.back().id = IdOf(bins_.size() - 1);
    return bins_.back();
  }
  size_t LeftOf(size_t pool) const { return std::min(left_[pool], left_in_all_); }
  void Count(size_t pool, size_t nodes) {
    added_[pool] += nodes;
    left_[pool] -= nodes;
    left_in_all_ -= nodes;
  }
  // Cpu work stays off pools with gpus while another pool can hold it.
  const std::vector<size_t>& OrderFor(const ResourceRequest& wanted) const {
    return wanted.Total().gpu > 0 ? order_ : without_gpus_first_;
  }

  // First fit. A bin or a pool that does not hold the shape now will not later: both only shrink.
  void MeetSingle(const Demand& demand) {
    const Resources rest = WithoutGpus(demand.wanted).front();
    const auto holds = [&](FreeCapacity& bin) {
      const bool fits =
          TakeBundle(bin, rest, demand.wanted.one().gpu, demand.wanted.spread_gpus).has_value();
      bin.taken = 0;
      return fits;
    };
    const std::vector<size_t>& pools = OrderFor(demand.wanted);
    size_t bin = 0, pool = 0;
    for (size_t met = 0; met < demand.count; ++met) {
      while (bin < bins_.size() && !holds(bins_[bin])) ++bin;
      if (bin < bins_.size()) continue;
      while (pool < pools.size() && (LeftOf(pools[pool]) == 0 || !holds(AddBin(pools[pool])))) {
        bins_.resize(bin);
        ++pool;
      }
      if (pool == pools.size()) return;
      Count(pools[pool], 1);
    }
  }

  void MeetGangs(const Demand& demand) {
    const std::vector<Resources> rest = WithoutGpus(demand.wanted);
    const auto holds_any = [&](FreeCapacity bin) {  // A copy.
      for (size_t i = 0; i < rest.size(); ++i)
        if (TakeBundle(bin, rest[i], demand.wanted.bundles[i].gpu, false)) return true;
      return false;
    };
    std::vector<FreeCapacity> usable;
    for (const FreeCapacity& bin : bins_)
      if (holds_any(bin)) usable.push_back(bin);
    std::vector<size_t> pools;
    for (size_t pool : OrderFor(demand.wanted))
      if (holds_any(empty_[pool])) pools.push_back(pool);
    for (size_t met = 0; met < demand.count; ++met) {
      if (!Pack(usable, demand.wanted) && !Grow(pools, usable, demand.wanted)) return;
      std::erase_if(usable, [&](FreeCapacity& bin) {
        if (bin.taken == 0) return false;
        bin.taken = 0;
        bins_[BinOf(bin.id)] = bin;
        return !holds_any(bin);
      });
    }
  }

  // All bundles or nothing; nodes that took some have `taken` above 0.
  bool Pack(std::vector<FreeCapacity>& usable, const ResourceRequest& wanted) {
    if (Packing(wanted).Run(usable) == wanted.bundles.size()) return true;
    for (FreeCapacity& bin : usable)
      if (bin.taken > 0) bin = bins_[BinOf(bin.id)];
    return false;
  }

  // By as few nodes as possible of the first pool that can; one that cannot is not asked again.
  bool Grow(std::vector<size_t>& pools, std::vector<FreeCapacity>& usable,
            const ResourceRequest& wanted) {
    const size_t bins = bins_.size(), before = usable.size();
    for (; !pools.empty(); pools.erase(pools.begin())) {
      const size_t most = std::min(LeftOf(pools.front()), wanted.bundles.size());
      for (size_t count = 1; count <= most; ++count) {
        usable.push_back(AddBin(pools.front()));
        if (!Pack(usable, wanted)) continue;
        Count(pools.front(), count);
        return true;
      }
      bins_.resize(bins);
      usable.resize(before);
    }
    return false;
  }

  const std::vector<PoolNow>& pools_;
  std::vector<FreeCapacity> bins_;
  std::vector<FreeCapacity> empty_;  // A new node of each pool.
  std::vector<size_t> added_, left_;
  size_t left_in_all_ = 0;
  std::vector<size_t> order_, without_gpus_first_;
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
                                 const std::vector<Demand>& demands,
                                 std::optional<uint32_t> max_workers) {
  for (FreeCapacity& bin : soon) bin.taken = 0;
  Planner planner(pools, std::move(soon), max_workers);
  for (const Demand& demand : demands) planner.Meet(demand);
  return planner.Take();
}

}  // namespace rt
