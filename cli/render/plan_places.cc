#include "cli/render/plan_places.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "common/spec/packing.h"

namespace rt {
namespace {

int64_t UnitsOf(const Json& holder, const std::string& key) {
  return std::llround(holder.GetDouble(key) * static_cast<double>(kUnit));
}

// As the head counts them: the healthy ones, or unnamed ones where none is named.
std::vector<FreeDevice> DevicesOf(const Json& node, int64_t units) {
  std::vector<FreeDevice> devices;
  auto add = [&](uint32_t index) {
    devices.push_back({index, std::min(units, kUnit)});
    units -= devices.back().units;
  };
  const Json* gpus = node.Find("gpus");
  const bool named = gpus != nullptr && gpus->is_array() && !gpus->array().empty();
  if (named) {
    for (const Json& gpu : gpus->array())
      if (units > 0 && gpu.GetString("state") != "UNHEALTHY")
        add(static_cast<uint32_t>(gpu.GetInt("index")));
  } else {
    while (units > 0) add(static_cast<uint32_t>(devices.size()));
  }
  return devices;
}

FreeCapacity CapacityOf(const Json& node, const Json& total, uint64_t number) {
  FreeCapacity capacity{.id = NodeId{number}};
  capacity.free.cpu = UnitsOf(total, "cpu");
  capacity.free.gpu = UnitsOf(total, "gpu");
  capacity.free.memory = total.GetInt("memory_bytes");
  if (const Json* custom = total.Find("custom"); custom != nullptr && custom->is_object())
    for (const auto& [name, value] : custom->object())
      if (const int64_t units = UnitsOf(*custom, name); units > 0)
        capacity.free.custom[name] = units;
  capacity.devices = DevicesOf(node, capacity.free.gpu);
  return capacity;
}

struct Node {
  const Json* item;
  int64_t trials = 0, bundles = 0;
};
// Rooms are numbered from 1, in the order of the nodes.
Node& NodeOf(std::vector<Node>& nodes, NodeId id) { return nodes.at(id.value - 1); }

// Trials of one bundle: each node by itself, until it is full.
int64_t Fill(std::vector<FreeCapacity> capacities, const ResourceRequest& wanted,
             std::vector<Node>& nodes) {
  int64_t sum = 0;
  for (FreeCapacity& capacity : capacities) {
    std::vector<FreeCapacity> alone = {std::move(capacity)};
    int64_t count = 0;
    while (count < kSideBySideMax && Packing(wanted).Run(alone) == 1) {
      alone.front().taken = 0;
      ++count;
    }
    Node& node = NodeOf(nodes, alone.front().id);
    node.trials = node.bundles = count;
    sum += count;
  }
  return sum;
}

// Trials of several bundles, one after another, each in full.
int64_t FillWithGangs(std::vector<FreeCapacity> capacities, const ResourceRequest& wanted,
                      int64_t most, std::vector<Node>& nodes) {
  int64_t placed = 0;
  for (; placed < most; ++placed) {
    // The order in which the head looks at them.
    std::sort(capacities.begin(), capacities.end(),
              [](const FreeCapacity& a, const FreeCapacity& b) {
                return std::tuple(LargestGpuRequest(a.devices), a.free.cpu, a.id) <
                       std::tuple(LargestGpuRequest(b.devices), b.free.cpu, b.id);
              });
    const auto places = PackAll(capacities, wanted);
    if (!places.has_value()) break;
    std::set<NodeId> touched;
    for (const BundlePlace& place : *places) {
      ++NodeOf(nodes, place.node).bundles;
      touched.insert(place.node);
    }
    for (NodeId id : touched) ++NodeOf(nodes, id).trials;
  }
  return placed;
}

}  // namespace

SideBySide CountSideBySide(const Json& nodes, const ResourceRequest& wanted, int64_t trials_max) {
  std::vector<Node> there;
  std::vector<FreeCapacity> capacities;
  for (const Json& node : nodes.array()) {
    const Json* total = node.Find("resources_total");
    const std::string state = node.GetString("state");
    if (total == nullptr || (state != "READY" && state != "SUSPECT")) continue;
    capacities.push_back(CapacityOf(node, *total, there.size() + 1));
    there.push_back({&node});
  }
  SideBySide result;
  const int64_t most = std::min(trials_max, kSideBySideMax);
  result.trials = wanted.is_gang() ? FillWithGangs(std::move(capacities), wanted, most, there)
                                   : std::min(most, Fill(std::move(capacities), wanted, there));
  for (const Node& node : there)
    result.places.Append(
        Json::MakeObject({{"node", node.item->GetString("name")},
                          {"pool", node.item->Find("pool") ? *node.item->Find("pool") : Json()},
                          {"trials", node.trials},
                          {"bundles", node.bundles}}));
  return result;
}

}  // namespace rt
