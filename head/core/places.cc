#include "head/core/places.h"

#include <algorithm>

#include "head/core/draft.h"

namespace rt {
namespace {

FreeCapacity CapacityOn(const World& world, NodeId id) {
  const Node& node = world.state.nodes.at(id);
  const NodeIndex& index = world.index.nodes.at(id);
  FreeCapacity capacity{
      .id = id, .free = node.inventory.resources, .devices = FreeDevices(node, index)};
  capacity.free.Subtract(index.used);
  return capacity;
}

// The nodes that may get the one bundle.
struct Candidates {
  const Core& core;
  const Resources& wanted;
  const std::set<NodeId>& avoided;
  Millis now;

  bool Has(NodeId id) const {
    return !avoided.contains(id) && MayTakeWork(core, id, now) &&
           wanted.Fits(FreeOn(core.world, id));
  }
};

// The node that the one bundle fits best.
std::optional<NodeId> FindTightest(const Candidates& candidates) {
  const auto& free = candidates.core.world.index.free;
  const Resources& wanted = candidates.wanted;
  auto at = free.lower_bound({wanted.gpu, wanted.cpu, NodeId{}});
  while (at != free.end()) {
    auto [gpu, cpu, id] = *at;
    if (cpu < wanted.cpu) {  // Skip to the nodes of this gpu level that have the cpus.
      at = free.lower_bound({gpu, wanted.cpu, NodeId{}});
      continue;
    }
    if (candidates.Has(id)) return id;
    ++at;
  }
  return std::nullopt;
}

// The node whose gpus have the most free units.
std::optional<NodeId> FindEmptiest(const Candidates& candidates) {
  const auto& free = candidates.core.world.index.free;
  const Resources& wanted = candidates.wanted;
  for (auto at = free.rbegin(); at != free.rend(); ++at) {
    auto [gpu, cpu, id] = *at;
    if (gpu < wanted.gpu) break;
    if (cpu >= wanted.cpu && candidates.Has(id)) return id;
  }
  return std::nullopt;
}

FreeCapacity* CapacityOf(std::vector<FreeCapacity>& capacities, const Member& member) {
  const auto found =
      std::find_if(capacities.begin(), capacities.end(),
                   [&](const FreeCapacity& capacity) { return capacity.id == member.node; });
  return found == capacities.end() ? nullptr : &*found;
}

// By each member's bundle, on its node; `sign`: 1 returns the capacity, -1 takes it.
void Change(std::vector<FreeCapacity>& capacities, const ResourceRequest& request,
            const std::vector<Member>& members, int sign) {
  for (const Member& member : members) {
    FreeCapacity* capacity = CapacityOf(capacities, member);
    if (capacity == nullptr) continue;
    const Resources& bundle = request.BundleOf(member.rank);
    if (sign > 0) {
      capacity->free.Add(bundle);
    } else {
      capacity->free.Subtract(bundle);
    }
    for (FreeDevice& device : capacity->devices)
      if (std::find(member.gpus.begin(), member.gpus.end(), device.index) != member.gpus.end())
        device.units += sign * UnitsPerDevice(bundle);
  }
}

}  // namespace

std::vector<FreeCapacity> CapacitiesNow(const Core& core, Millis now) {
  std::vector<FreeCapacity> capacities;
  for (const auto& [gpu, cpu, id] : core.world.index.free)
    if (MayTakeWork(core, id, now)) capacities.push_back(CapacityOn(core.world, id));
  return capacities;
}

std::vector<FreeCapacity> CapacitiesSoon(const Core& core, Millis now) {
  std::vector<FreeCapacity> capacities;
  for (const auto& [gpu, cpu, id] : core.world.index.free) {
    const auto soft = core.soft.nodes.find(id);
    const bool is_well = soft == core.soft.nodes.end() || soft->second.fault.empty();
    if (is_well && !MayTakeWork(core, id, now)) capacities.push_back(CapacityOn(core.world, id));
  }
  return capacities;
}

void TakeCapacity(std::vector<FreeCapacity>& capacities, const ResourceRequest& request,
                  const std::vector<Member>& members) {
  Change(capacities, request, members, -1);
}

void ReturnCapacity(std::vector<FreeCapacity>& capacities, const ResourceRequest& request,
                    const std::vector<Member>& members) {
  Change(capacities, request, members, 1);
}

static std::optional<std::vector<Member>> PutOne(std::vector<FreeCapacity>& capacities,
                                                 const ResourceRequest& wanted,
                                                 const std::set<NodeId>& avoided) {
  std::vector<FreeCapacity> tried;
  for (const FreeCapacity& capacity : capacities)
    if (!avoided.contains(capacity.id)) tried.push_back(capacity);
  for (FreeCapacity& capacity : tried) capacity.taken = 0;
  Packing packing(wanted);
  if (packing.Run(tried) < wanted.bundles.size()) return std::nullopt;
  std::vector<Member> members;
  for (BundlePlace& place : packing.Take())
    members.push_back(
        {static_cast<uint32_t>(members.size()), place.node, std::move(place.gpus)});
  TakeCapacity(capacities, wanted, members);
  return members;
}

std::optional<std::vector<Member>> PutInto(std::vector<FreeCapacity>& capacities,
                                           const ResourceRequest& wanted,
                                           const std::set<NodeId>& avoided) {
  if (wanted.gpu_types.empty()) return PutOne(capacities, wanted, avoided);
  for (const ResourceRequest& one : wanted.Alternatives())
    if (auto members = PutOne(capacities, one, avoided)) return members;
  return std::nullopt;
}

Resources FreeOn(const World& world, NodeId id) {
  const Node& node = world.state.nodes.at(id);
  Resources free = node.inventory.resources;
  auto index = world.index.nodes.find(id);
  if (index == world.index.nodes.end()) return free;
  free.Subtract(index->second.used);
  // An attempt may hold a gpu that has failed and is not offered any more.
  free.gpu = std::max<int64_t>(free.gpu, 0);
  if (node.inventory.resources.gpu > 0)
    free.gpu = LargestGpuRequest(FreeDevices(node, index->second));
  return free;
}

std::optional<std::vector<Member>> FindPlaces(const Core& core, const ResourceRequest& wanted,
                                              Millis now, const std::set<NodeId>& avoided) {
  if (!wanted.gpu_types.empty()) {
    for (const ResourceRequest& one : wanted.Alternatives())
      if (auto members = FindPlaces(core, one, now, avoided)) return members;
    return std::nullopt;
  }
  if (wanted.is_gang()) {
    std::vector<FreeCapacity> capacities = CapacitiesNow(core, now);
    return PutInto(capacities, wanted, avoided);
  }
  const Resources& one = wanted.one();
  const bool share = one.gpu > 0 && one.gpu < kUnit;
  const Candidates candidates{core, one, avoided, now};
  const std::optional<NodeId> node =
      share && wanted.spread_gpus ? FindEmptiest(candidates) : FindTightest(candidates);
  if (!node.has_value()) return std::nullopt;
  Member member{.rank = 0, .node = *node};
  if (one.gpu > 0) {
    auto devices = FreeDevices(core.world.state.nodes.at(*node), core.world.index.nodes.at(*node));
    member.gpus = TakeDevices(devices, one.gpu, wanted.spread_gpus).value();
  }
  return std::vector<Member>{std::move(member)};
}

size_t CountPlaces(const Core& core, const ResourceRequest& wanted, Millis now) {
  const std::vector<FreeCapacity> capacities = CapacitiesNow(core, now);
  size_t most = 0;
  for (const ResourceRequest& one : wanted.Alternatives()) {
    std::vector<FreeCapacity> left = capacities;
    most = std::max(most, Packing(one).Run(left));
  }
  return most;
}

size_t CountFree(const Core& core, const ResourceRequest& wanted, Millis now, size_t most) {
  if (wanted.is_gang()) return 0;
  if (!wanted.gpu_types.empty()) {
    size_t count = 0;
    for (const ResourceRequest& one : wanted.Alternatives())
      count += CountFree(core, one, now, most - count);
    return count;
  }
  const Resources& one = wanted.one();
  if (one.IsZero()) return most;
  size_t count = 0;
  for (const auto& [gpu, cpu, id] : core.world.index.free) {
    if (!MayTakeWork(core, id, now)) continue;
    for (Resources left = FreeOn(core.world, id); count < most && one.Fits(left); ++count)
      left.Subtract(one);
    if (count == most) break;
  }
  return count;
}

bool CouldFit(const std::vector<Resources>& nodes, const ResourceRequest& wanted) {
  std::vector<FreeCapacity> capacities;
  for (const Resources& size : nodes) {
    const Node empty{.inventory = {.resources = size}};
    capacities.push_back({.id = {}, .free = size, .devices = FreeDevices(empty, {})});
  }
  const std::vector<ResourceRequest> alternatives = wanted.Alternatives();
  return std::any_of(alternatives.begin(), alternatives.end(), [&](const ResourceRequest& one) {
    std::vector<FreeCapacity> left = capacities;
    return Packing(one).Run(left) == one.bundles.size();
  });
}

}  // namespace rt
