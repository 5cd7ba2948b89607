#include "head/core/demand.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "head/core/devices.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"

namespace rt {
namespace {

// Attempts with a rank on a node that drains, whose owners are to run again.
std::set<AttemptId> LeavingAttempts(const World& world) {
  std::set<AttemptId> leaving;
  for (const auto& [id, node] : world.state.nodes) {
    const auto index = world.index.nodes.find(id);
    if (!node.draining || !node.counts() || index == world.index.nodes.end()) continue;
    for (const Fence& fence : index->second.attempts) {
      const AttemptId& attempt = fence.attempt;
      const Attempt* live = FindLive(world.state, attempt);
      if (live == nullptr || live->is_backfilled()) continue;
      if (PolicyOf(attempt.owner).may_run(world.state, attempt.owner)) leaving.insert(attempt);
    }
  }
  return leaving;
}

// The capacities of these nodes change the list.
void MoveNodes(const std::vector<Member>& members, std::vector<FreeCapacity>& from,
               std::vector<FreeCapacity>& to) {
  const auto is_of_them = [&](const FreeCapacity& capacity) {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member& member) { return member.node == capacity.id; });
  };
  std::copy_if(from.begin(), from.end(), std::back_inserter(to), is_of_them);
  std::erase_if(from, is_of_them);
}

// Each either takes what is free, or is added to the demand. Of a gang, the nodes that do not drain
// become free with its end.
void AddLeaving(const Core& core, Millis now, NodeDemand& demand) {
  const World& world = core.world;
  const std::set<AttemptId> leaving = LeavingAttempts(world);
  if (leaving.empty()) return;
  std::vector<FreeCapacity> free = CapacitiesNow(core, now);
  for (const AttemptId& id : leaving) {
    const ResourceRequest& wanted = RequestOf(world, id.owner);
    const std::vector<Member>& members = FindLive(world.state, id)->members;
    std::vector<FreeCapacity> afterwards = free;
    if (members.size() == wanted.bundles.size()) ReturnCapacity(afterwards, wanted, members);
    if (PutInto(afterwards, wanted, AvoidedBy(world, id.owner)).has_value()) {
      free = std::move(afterwards);
      continue;
    }
    MoveNodes(members, afterwards, demand.soon);
    free = std::move(afterwards);
    if (!demand.requests.empty() && demand.requests.back().wanted == wanted)
      ++demand.requests.back().count;
    else demand.requests.push_back({wanted, 1});
  }
}

// Of the nodes that count and stay, as if nothing ran there.
std::vector<FreeCapacity> WholeNodes(const State& state) {
  std::vector<FreeCapacity> nodes;
  for (const auto& [id, node] : state.nodes) {
    if (!node.ready || !node.counts() || node.draining) continue;
    nodes.push_back(
        {.id = id, .free = node.inventory.resources, .devices = FreeDevices(node, NodeIndex{})});
  }
  return nodes;
}

}  // namespace

NodeDemand DemandOf(const Core& core, Millis now) {
  // Nodes that are only silent for a moment, as all are after the head has started, come back.
  NodeDemand demand{.requests = {}, .soon = CapacitiesSoon(core, now)};
  AddLeaving(core, now, demand);
  std::vector<std::pair<QueueOrder, Demand>> queues;
  for (const auto& [wanted, queue] : core.world.index.ready)
    queues.push_back({queue.by_order.begin()->first, {wanted, queue.by_order.size()}});
  std::sort(queues.begin(), queues.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [order, one] : queues) demand.requests.push_back(std::move(one));
  return demand;
}

std::vector<Demand> AskedOf(const State& state) {
  std::vector<RequestedBundles> bundles = state.requested_bundles;
  std::stable_sort(bundles.begin(), bundles.end(),
                   [](const RequestedBundles& a, const RequestedBundles& b) {
                     const auto size = [](const Resources& each) {
                       return std::tuple(each.gpu, each.custom.size(), each.cpu, each.memory);
                     };
                     return size(a.each) > size(b.each);
                   });
  std::vector<Demand> demands;
  for (const RequestedBundles& one : bundles)
    demands.push_back({{.bundles = {one.each}}, static_cast<size_t>(one.count)});
  return demands;
}

std::optional<ResourceRequest> FirstUnmet(const Core& core) {
  const std::vector<FreeCapacity> nodes = WholeNodes(core.world.state);
  std::vector<Demand> larger;
  for (Demand& one : AskedOf(core.world.state)) {
    larger.push_back(std::move(one));
    if (CountUnmet(nodes, larger) > 0) return larger.back().wanted;
  }
  return std::nullopt;
}

std::vector<size_t> PlanAsked(const Core& core, std::vector<PoolNow> pools) {
  if (core.world.state.requested_bundles.empty()) return std::vector<size_t>(pools.size());
  for (PoolNow& pool : pools) pool.is_hurried = true;
  return PlanNewNodes(pools, WholeNodes(core.world.state), AskedOf(core.world.state),
                      core.soft.max_workers);
}

AskedNodes::AskedNodes(const Core& core) : asked_(AskedOf(core.world.state)) {
  if (asked_.empty()) return;
  nodes_ = WholeNodes(core.world.state);
  unmet_ = CountUnmet(nodes_, asked_);
}

bool AskedNodes::TrySpare(NodeId node) {
  if (asked_.empty()) return true;
  std::vector<FreeCapacity> others = nodes_;
  std::erase_if(others, [&](const FreeCapacity& other) { return other.id == node; });
  if (CountUnmet(others, asked_) > unmet_) return false;
  nodes_ = std::move(others);
  return true;
}

}  // namespace rt
