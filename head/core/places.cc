#include "head/core/places.h"

#include <algorithm>

#include "head/core/draft.h"

namespace rt {
namespace {

Room RoomOn(const World& world, NodeId id) {
  const Node& node = world.state.nodes.at(id);
  const NodeIndex& index = world.index.nodes.at(id);
  Room room{.id = id, .free = node.inventory.resources, .devices = FreeDevices(node, index)};
  room.free.Subtract(index.used);
  return room;
}

// Who may be given the one bundle.
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

// The node whose gpus have the most room.
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

Room* RoomOf(std::vector<Room>& rooms, const Member& member) {
  const auto found = std::find_if(rooms.begin(), rooms.end(),
                                  [&](const Room& room) { return room.id == member.node; });
  return found == rooms.end() ? nullptr : &*found;
}

// By each member's bundle, in the room of its node; `sign`: 1 gives it back, -1 takes it.
void Change(std::vector<Room>& rooms, const ResourceRequest& request,
            const std::vector<Member>& members, int sign) {
  for (const Member& member : members) {
    Room* room = RoomOf(rooms, member);
    if (room == nullptr) continue;
    const Resources& bundle = request.bundles.at(member.rank);
    if (sign > 0) {
      room->free.Add(bundle);
    } else {
      room->free.Subtract(bundle);
    }
    for (FreeDevice& device : room->devices)
      if (std::find(member.gpus.begin(), member.gpus.end(), device.index) != member.gpus.end())
        device.units += sign * UnitsPerDevice(bundle);
  }
}

}  // namespace

std::vector<Room> RoomsNow(const Core& core, Millis now) {
  std::vector<Room> rooms;
  for (const auto& [gpu, cpu, id] : core.world.index.free)
    if (MayTakeWork(core, id, now)) rooms.push_back(RoomOn(core.world, id));
  return rooms;
}

void Enter(std::vector<Room>& rooms, const ResourceRequest& request,
           const std::vector<Member>& members) {
  Change(rooms, request, members, -1);
}

void Leave(std::vector<Room>& rooms, const ResourceRequest& request,
           const std::vector<Member>& members) {
  Change(rooms, request, members, 1);
}

std::optional<std::vector<Member>> PutInto(std::vector<Room>& rooms, const ResourceRequest& wanted,
                                           const std::set<NodeId>& avoided) {
  std::vector<Room> tried;
  for (const Room& room : rooms)
    if (!avoided.contains(room.id)) tried.push_back(room);
  for (Room& room : tried) room.taken = 0;
  Packing packing(wanted);
  if (packing.Run(tried) < wanted.bundles.size()) return std::nullopt;
  std::vector<Member> members;
  for (BundlePlace& place : packing.Take())
    members.push_back(
        {static_cast<uint32_t>(members.size()), place.node, std::move(place.gpus)});
  Enter(rooms, wanted, members);
  return members;
}

Resources FreeOn(const World& world, NodeId id) {
  const Node& node = world.state.nodes.at(id);
  Resources free = node.inventory.resources;
  auto index = world.index.nodes.find(id);
  if (index == world.index.nodes.end()) return free;
  free.Subtract(index->second.used);
  if (node.inventory.resources.gpu > 0)
    free.gpu = LargestGpuRequest(FreeDevices(node, index->second));
  return free;
}

std::optional<std::vector<Member>> FindPlaces(const Core& core, const ResourceRequest& wanted,
                                              Millis now, const std::set<NodeId>& avoided) {
  if (wanted.is_gang()) {
    std::vector<Room> rooms = RoomsNow(core, now);
    return PutInto(rooms, wanted, avoided);
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
  std::vector<Room> rooms = RoomsNow(core, now);
  return Packing(wanted).Run(rooms);
}

bool CouldFit(const std::vector<Resources>& nodes, const ResourceRequest& wanted) {
  std::vector<Room> rooms;
  for (const Resources& size : nodes) {
    const Node empty{.inventory = {.resources = size}};
    rooms.push_back({.id = {}, .free = size, .devices = FreeDevices(empty, {})});
  }
  return Packing(wanted).Run(rooms) == wanted.bundles.size();
}

}  // namespace rt
