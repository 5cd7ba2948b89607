#include "head/autoscale/planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rt {
namespace {

// Ray's bound for a small cluster: max(5, upscaling_speed * ready).
constexpr double kPendingLeast = 5;

// A machine that is being removed counts until it is gone: it is paid for, and quotas count it.
size_t ThereNow(const PoolNow& pool) { return pool.live + pool.ending; }

size_t LeftIn(const PoolNow& pool) {
  const size_t most = pool.spec.max_workers;
  return pool.may_request ? most - std::min(most, ThereNow(pool)) : 0;
}

size_t Lacking(const PoolNow& pool) {
  const size_t staying = pool.live - std::min(pool.live, pool.leaving);
  const size_t least = pool.spec.min_workers;
  return std::min(least - std::min(least, staying), LeftIn(pool));
}

size_t MayAdd(const PoolNow& pool) {
  const size_t most = LeftIn(pool);
  if (most == 0 || pool.is_hurried) return most;
  const double ready = static_cast<double>(pool.live - std::min(pool.live, pool.pending));
  const double allowed = std::max(kPendingLeast, std::ceil(pool.spec.upscaling_speed * ready));
  const double left = std::max(0.0, allowed - static_cast<double>(pool.pending));
  return static_cast<size_t>(std::min(static_cast<double>(most), left));
}

bool AreAlike(const FreeCapacity& a, const FreeCapacity& b) {
  const auto same_device = [](const FreeDevice& left, const FreeDevice& right) {
    return left.index == right.index && left.units == right.units;
  };
  return a.free == b.free && std::equal(a.devices.begin(), a.devices.end(), b.devices.begin(),
                                        b.devices.end(), same_device);
}

// A bundle that is tried on many nodes.
struct Piece {
  Resources without_gpu;
  int64_t gpu = 0;
  bool spread = false;

  bool TakeFrom(FreeCapacity& node) const {
    const bool fits = TakeBundle(node, without_gpu, gpu, spread).has_value();
    node.taken = 0;
    return fits;
  }
};

Piece PieceOf(const ResourceRequest& wanted) {
  Piece piece{wanted.one(), wanted.one().gpu, wanted.spread_gpus};
  piece.without_gpu.gpu = 0;
  return piece;
}

// How many such bundles a node holds, up to `most`.
size_t CountIn(const FreeCapacity& node, const Piece& piece, size_t most) {
  if (most == 0 || !piece.without_gpu.Fits(node.free)) return 0;
  FreeCapacity tried = node;
  size_t count = 0;
  while (count < most && piece.TakeFrom(tried)) ++count;
  return count;
}

FreeCapacity After(FreeCapacity node, const Piece& piece, size_t count) {
  for (size_t i = 0; i < count; ++i) piece.TakeFrom(node);
  return node;
}

// Nodes with the same capacity are one group, so that the time does not grow with the nodes.
struct Group {
  FreeCapacity node;
  size_t count = 0;
  uint64_t position = 0;  // Among the groups: what was begun to be filled stays where it was.
};

class Planner {
 public:
  Planner(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon,
          std::optional<uint32_t> max_workers)
      : pools_(pools) {
    for (FreeCapacity& node : soon) AddNodes(std::move(node), 1);
    size_t there = 0;
    for (const PoolNow& pool : pools_) {
      there += ThereNow(pool);
      empty_.push_back(EmptyNode(pool.each));
      AddNodes(empty_.back(), pool.pending);
    }
    const size_t most = max_workers.value_or(SIZE_MAX);
    left_in_all_ = most - std::min(most, there);
    for (size_t i = 0; i < pools_.size(); ++i) {
      const size_t lacking = std::min(Lacking(pools_[i]), left_in_all_), more = MayAdd(pools_[i]);
      left_in_all_ -= lacking;
      added_.push_back(lacking);
      left_.push_back(more - std::min(more, lacking));
      AddNodes(empty_[i], lacking);
      order_.push_back(i);
    }
    without_gpus_first_ = order_;
    std::stable_sort(
        without_gpus_first_.begin(), without_gpus_first_.end(),
        [&](size_t a, size_t b) { return pools_[a].each.gpu == 0 && pools_[b].each.gpu > 0; });
  }

  // A request that names gpu types gets the first type that a pool or a node on its way can hold.
  void Meet(const Demand& demand) {
    if (!demand.wanted.gpu_types.empty()) {
      for (ResourceRequest& one : demand.wanted.Alternatives()) {
        if (!CouldHold(one)) continue;
        return Meet({std::move(one), demand.count});
      }
      unmet_ += demand.count * demand.wanted.bundles.size();
      return;
    }
    const std::vector<Resources>& bundles = demand.wanted.bundles;
    const bool is_uniform = std::all_of(bundles.begin(), bundles.end(), [&](const Resources& one) {
      return one == bundles.front();
    });
    if (bundles.size() == 1) return MeetSingles(demand);
    if (is_uniform && demand.wanted.strategy == Strategy::kPack &&
        demand.wanted.ranks_per_node == 0)
      MeetPacks(demand);
    else MeetOthers(demand);
    TidyGroups();
  }

  std::vector<size_t> Take() { return std::move(added_); }
  size_t unmet() const { return unmet_; }

 private:
  bool CouldHold(const ResourceRequest& wanted) const {
    std::vector<FreeCapacity> nodes;
    for (const Group& group : groups_)
      nodes.insert(nodes.end(), std::min(group.count, wanted.bundles.size()), group.node);
    if (Packing(wanted).Run(nodes) == wanted.bundles.size()) return true;
    return std::any_of(pools_.begin(), pools_.end(),
                       [&](const PoolNow& pool) { return PoolCouldHold(pool, wanted); });
  }

  static constexpr uint64_t kSpacing = uint64_t{1} << 32;

  void AddNodes(FreeCapacity node, size_t count) {
    if (count == 0) return;
    node.id = {};
    node.taken = 0;
    if (!groups_.empty() && AreAlike(groups_.back().node, node)) groups_.back().count += count;
    else groups_.push_back({std::move(node), count, (groups_.size() + 1) * kSpacing});
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

  // First fit: each node is filled before the next one.
  void MeetSingles(const Demand& demand) {
    const Piece piece = PieceOf(demand.wanted);
    size_t left = demand.count;
    std::vector<Group> groups;
    groups.reserve(groups_.size() + 2);
    for (Group& group : groups_) left -= FillInto(groups, std::move(group), piece, left);
    groups_ = std::move(groups);
    for (size_t pool : OrderFor(demand.wanted)) {
      const size_t each = CountIn(empty_[pool], piece, left);
      if (each == 0) continue;
      const size_t nodes = std::min(LeftOf(pool), (left + each - 1) / each);
      if (nodes == 0) continue;
      Count(pool, nodes);
      left -= FillInto(groups_, {empty_[pool], nodes, 0}, piece, left);
    }
    unmet_ += left;
    TidyGroups();
  }

  // The nodes of the group, of which the first are filled; says how many bundles they took.
  static size_t FillInto(std::vector<Group>& groups, Group group, const Piece& piece, size_t left) {
    if (group.position == 0) group.position = (groups.size() + 1) * kSpacing;
    const size_t each = CountIn(group.node, piece, left);
    if (each == 0) {
      groups.push_back(std::move(group));
      return 0;
    }
    const size_t full = std::min(group.count, left / each);
    const size_t rest = full < group.count ? left - full * each : 0;
    groups.push_back({After(group.node, piece, each), full, group.position});
    if (rest > 0) groups.push_back({After(group.node, piece, rest), 1, group.position});
    group.count -= full + (rest > 0 ? 1 : 0);
    if (group.count > 0) groups.push_back(std::move(group));
    return full * each + rest;
  }

  // Gangs of equal bundles on as few nodes as possible: first what takes the most, as Packing does.
  void MeetPacks(const Demand& demand) {
    const Piece piece = PieceOf(demand.wanted);
    const size_t size = demand.wanted.bundles.size();
    std::vector<size_t> holds;  // Bundles, by group.
    for (const Group& group : groups_) holds.push_back(CountIn(group.node, piece, size));
    std::map<std::pair<size_t, size_t>, size_t> after;  // (group, bundles taken): the group then.
    std::vector<size_t> pools = OrderFor(demand.wanted);
    std::vector<size_t> fresh(pools_.size(), SIZE_MAX);  // The group of new nodes, by pool.
    const auto take = [&](const std::vector<std::pair<size_t, size_t>>& picks) {
      for (const auto& pick : picks) {
        const auto [found, is_new] = after.try_emplace(pick, groups_.size());
        if (is_new) {
          const Group& from = groups_[pick.first];
          Group group{After(from.node, piece, pick.second), 0, from.position - 1};
          groups_.push_back(std::move(group));
          holds.push_back(CountIn(groups_.back().node, piece, size));
        }
        ++groups_[found->second].count;
      }
    };
    const auto grow = [&](size_t pool, std::vector<std::pair<size_t, size_t>>& picks) {
      if (fresh[pool] == SIZE_MAX) {
        fresh[pool] = groups_.size();
        holds.push_back(CountIn(empty_[pool], piece, size));
        groups_.push_back({empty_[pool], 0, (groups_.size() + 1) * kSpacing});
      }
      const size_t most = holds[fresh[pool]] == 0 ? 0 : std::min(LeftOf(pool), size);
      for (size_t nodes = 1; nodes <= most; ++nodes) {
        groups_[fresh[pool]].count += nodes;
        if (Pick(holds, size, picks)) return Count(pool, nodes), true;
        groups_[fresh[pool]].count -= nodes;
      }
      return false;
    };
    std::vector<std::pair<size_t, size_t>> picks;
    for (size_t met = 0; met < demand.count; ++met) {
      bool is_met = Pick(holds, size, picks);
      while (!is_met && !pools.empty()) {
        is_met = grow(pools.front(), picks);
        if (!is_met) pools.erase(pools.begin());  // What it cannot do now it cannot do later.
      }
      if (!is_met) return;
      take(picks);
    }
  }

  // Nodes for `left` bundles as (group, bundles), taken out of their groups; or nothing.
  bool Pick(const std::vector<size_t>& holds, size_t left,
            std::vector<std::pair<size_t, size_t>>& picks) {
    picks.clear();
    while (left > 0) {
      size_t best = SIZE_MAX, most = 0;
      for (size_t i = 0; i < groups_.size(); ++i) {
        const size_t count = groups_[i].count == 0 ? 0 : std::min(holds[i], left);
        const bool is_before = best != SIZE_MAX && groups_[i].position < groups_[best].position;
        if (count < most || count == 0 || (count == most && !is_before)) continue;
        most = count;
        best = i;
      }
      if (best == SIZE_MAX) {
        for (const auto& [group, bundles] : picks) ++groups_[group].count;
        return false;
      }
      --groups_[best].count;
      picks.emplace_back(best, most);
      left -= most;
    }
    return true;
  }

  // Any other gang, by Packing itself; of a group no more nodes than there are bundles.
  void MeetOthers(const Demand& demand) {
    std::vector<size_t> pools = OrderFor(demand.wanted);
    for (size_t met = 0; met < demand.count; ++met) {
      if (PackOther(demand.wanted, SIZE_MAX, 0)) continue;
      const auto grows = [&](size_t pool) {
        const size_t most = std::min(LeftOf(pool), demand.wanted.bundles.size());
        for (size_t nodes = 1; nodes <= most; ++nodes)
          if (PackOther(demand.wanted, pool, nodes)) return Count(pool, nodes), true;
        return false;
      };
      while (!pools.empty() && !grows(pools.front())) pools.erase(pools.begin());
      if (pools.empty()) return;
    }
  }

  // With so many new nodes of the pool. Nothing changes when it does not fit.
  bool PackOther(const ResourceRequest& wanted, size_t pool, size_t new_nodes) {
    std::vector<FreeCapacity> nodes;
    std::vector<size_t> from;
    for (size_t i = 0; i < groups_.size(); ++i)
      for (size_t n = 0; n < std::min(groups_[i].count, wanted.bundles.size()); ++n) {
        nodes.push_back(groups_[i].node);
        from.push_back(i);
      }
    const size_t known = nodes.size();
    for (size_t n = 0; n < new_nodes; ++n) nodes.push_back(empty_[pool]);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].id = NodeId{i + 1};
    if (Packing(wanted).Run(nodes) < wanted.bundles.size()) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const bool is_new = i >= known;
      if (!is_new && nodes[i].taken == 0) continue;
      const uint64_t position =
          is_new ? (groups_.size() + 1) * kSpacing : groups_[from[i]].position - 1;
      if (!is_new) --groups_[from[i]].count;
      nodes[i].id = {};
      nodes[i].taken = 0;
      const auto alike = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
        return AreAlike(group.node, nodes[i]);
      });
      if (alike != groups_.end()) ++alike->count;
      else groups_.push_back({std::move(nodes[i]), 1, position});
    }
    return true;
  }

  // In order, without empty ones, and neighbours that are alike are one.
  void TidyGroups() {
    std::erase_if(groups_, [](const Group& group) { return group.count == 0; });
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const Group& a, const Group& b) { return a.position < b.position; });
    std::vector<Group> groups;
    groups.reserve(groups_.size());
    for (Group& group : groups_) {
      if (!groups.empty() && AreAlike(groups.back().node, group.node)) {
        groups.back().count += group.count;
        continue;
      }
      groups.push_back(std::move(group));
      groups.back().position = groups.size() * kSpacing;
    }
    groups_ = std::move(groups);
  }

  const std::vector<PoolNow>& pools_;
  std::vector<Group> groups_;
  std::vector<FreeCapacity> empty_;  // A new node of each pool.
  std::vector<size_t> added_, left_;
  size_t left_in_all_ = 0;
  size_t unmet_ = 0;  // Of one bundle.
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
  const std::vector<ResourceRequest> alternatives = wanted.Alternatives();
  return std::any_of(alternatives.begin(), alternatives.end(), [&](const ResourceRequest& one) {
    std::vector<FreeCapacity> nodes(count, EmptyNode(pool.each));
    return Packing(one).Run(nodes) == one.bundles.size();
  });
}

std::vector<size_t> PlanNewNodes(const std::vector<PoolNow>& pools, std::vector<FreeCapacity> soon,
                                 const std::vector<Demand>& demands,
                                 std::optional<uint32_t> max_workers) {
  Planner planner(pools, std::move(soon), max_workers);
  for (const Demand& demand : demands) planner.Meet(demand);
  return planner.Take();
}

size_t CountUnmet(std::vector<FreeCapacity> nodes, const std::vector<Demand>& demands) {
  const std::vector<PoolNow> none;
  Planner planner(none, std::move(nodes), std::nullopt);
  for (const Demand& demand : demands) planner.Meet(demand);
  return planner.unmet();
}

}  // namespace rt
