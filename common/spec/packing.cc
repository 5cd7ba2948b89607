#include "common/spec/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace rt {
namespace {

// The whole devices in the order in which a request for `count` of them takes them.
void OrderByIsland(std::vector<FreeDevice*>& whole, size_t count) {
  std::map<uint32_t, size_t> sizes;
  for (const FreeDevice* device : whole) ++sizes[device->island];
  auto rank = [&](const FreeDevice* device) {
    const size_t size = sizes.at(device->island);
    const bool holds_all = size >= count;
    // Islands that hold all of it, the smallest first; then the largest.
    return std::tuple(!holds_all, holds_all ? size : whole.size() - size, device->island);
  };
  std::stable_sort(whole.begin(), whole.end(),
                   [&](const FreeDevice* a, const FreeDevice* b) { return rank(a) < rank(b); });
}

}  // namespace

int64_t LargestGpuRequest(const std::vector<FreeDevice>& devices) {
  int64_t whole = 0, share = 0;
  for (const FreeDevice& device : devices) {
    if (device.units == kUnit) whole += kUnit;
    else share = std::max(share, device.units);
  }
  return whole + share;
}

std::optional<std::vector<uint32_t>> TakeDevices(std::vector<FreeDevice>& devices, int64_t units,
                                                 bool spread) {
  std::vector<uint32_t> chosen;
  if (units == 0) return chosen;
  if (units < kUnit) {
    FreeDevice* best = nullptr;
    for (FreeDevice& device : devices) {
      if (device.units < units) continue;
      if (best == nullptr || (spread ? device.units > best->units : device.units < best->units))
        best = &device;
    }
    if (best == nullptr) return std::nullopt;
    best->units -= units;
    chosen.push_back(best->index);
    return chosen;
  }
  std::vector<FreeDevice*> whole;
  for (FreeDevice& device : devices)
    if (device.units == kUnit) whole.push_back(&device);
  const size_t count = static_cast<size_t>(units / kUnit);
  if (whole.size() < count) return std::nullopt;
  if (count > 1) OrderByIsland(whole, count);
  for (size_t i = 0; i < count; ++i) {
    whole[i]->units = 0;
    chosen.push_back(whole[i]->index);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::optional<std::vector<uint32_t>> TakeBundle(FreeCapacity& capacity,
                                                const Resources& without_gpu, int64_t gpu,
                                                bool spread_gpus) {
  if (!without_gpu.Fits(capacity.free)) return std::nullopt;
  auto gpus = TakeDevices(capacity.devices, gpu, spread_gpus);
  if (!gpus.has_value()) return std::nullopt;
  capacity.free.Subtract(without_gpu);
  ++capacity.taken;
  return gpus;
}

Packing::Packing(const ResourceRequest& wanted)
    : wanted_(wanted), order_(wanted.bundles.size()), without_gpu_(wanted.bundles),
      places_(wanted.bundles.size()) {
  for (Resources& bundle : without_gpu_) bundle.gpu = 0;
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
    const Resources& left = wanted_.bundles[a];
    const Resources& right = wanted_.bundles[b];
    return std::tuple(left.gpu, left.cpu, left.memory) >
           std::tuple(right.gpu, right.cpu, right.memory);
  });
}

size_t Packing::Run(std::vector<FreeCapacity>& capacities) {
  if (wanted_.ranks_per_node != 0) return PutGroups(capacities);
  switch (wanted_.strategy) {
    case Strategy::kPack: return Pack(capacities);
    case Strategy::kStrictPack: return FillOne(capacities);
    case Strategy::kSpread: return Spread(capacities, SIZE_MAX);
    case Strategy::kStrictSpread: return Spread(capacities, 0);
  }
  return 0;
}

bool Packing::Put(FreeCapacity& capacity, size_t bundle) {
  auto gpus =
      TakeBundle(capacity, without_gpu_[bundle], wanted_.bundles[bundle].gpu, wanted_.spread_gpus);
  if (!gpus.has_value()) return false;
  places_[bundle] = {capacity.id, *std::move(gpus)};
  return true;
}

// Those of `left` that found no place in the room.
std::vector<size_t> Packing::Fill(FreeCapacity& capacity, const std::vector<size_t>& left) {
  std::vector<size_t> rest;
  for (size_t bundle : left)
    if (!Put(capacity, bundle)) rest.push_back(bundle);
  return rest;
}

// The room that takes the most of what is left, and so on: few nodes.
size_t Packing::Pack(std::vector<FreeCapacity>& capacities) {
  std::vector<size_t> left = order_;
  while (!left.empty()) {
    FreeCapacity* best = nullptr;
    size_t most = 0;
    for (FreeCapacity& capacity : capacities) {
      if (capacity.taken > 0) continue;
      FreeCapacity trial = capacity;
      const size_t count = left.size() - Fill(trial, left).size();
      if (count > most) {
        most = count;
        best = &capacity;
        if (count == left.size()) break;  // None takes more.
      }
    }
    if (best == nullptr) break;
    left = Fill(*best, left);
  }
  return order_.size() - left.size();
}

size_t Packing::FillOne(std::vector<FreeCapacity>& capacities) {
  size_t most = 0;
  for (FreeCapacity& capacity : capacities) {
    const size_t count = order_.size() - Fill(capacity, order_).size();
    if (count == order_.size()) return count;
    most = std::max(most, count);
  }
  return most;
}

// Each bundle to the room with the fewest, and of those the emptiest; a room with more than
// `shared_max` before it takes none.
size_t Packing::Spread(std::vector<FreeCapacity>& capacities, size_t shared_max) {
  size_t placed = 0;
  for (size_t bundle : order_) {
    std::vector<FreeCapacity*> by_use;
    for (auto capacity = capacities.rbegin(); capacity != capacities.rend(); ++capacity)
      if (capacity->taken <= shared_max) by_use.push_back(&*capacity);
    std::stable_sort(
        by_use.begin(), by_use.end(),
        [](const FreeCapacity* a, const FreeCapacity* b) { return a->taken < b->taken; });
    placed += std::any_of(by_use.begin(), by_use.end(),
                          [&](FreeCapacity* capacity) { return Put(*capacity, bundle); });
  }
  return placed;
}

// Each group of consecutive bundles to the fullest node that takes all of it and has no other. The
// last group is smaller if an attempt was resized to a number of ranks that is not its multiple.
size_t Packing::PutGroups(std::vector<FreeCapacity>& capacities) {
  const size_t all = wanted_.bundles.size();
  size_t placed = 0;
  for (size_t first = 0; first < all; first += wanted_.ranks_per_node) {
    std::vector<size_t> group(std::min<size_t>(wanted_.ranks_per_node, all - first));
    std::iota(group.begin(), group.end(), first);
    for (FreeCapacity& capacity : capacities) {
      if (capacity.taken > 0) continue;
      FreeCapacity trial = capacity;
      if (!Fill(trial, group).empty()) continue;
      capacity = std::move(trial);
      placed += group.size();
      break;
    }
  }
  return placed;
}

std::optional<std::vector<BundlePlace>> PackAll(std::vector<FreeCapacity>& capacities,
                                                const ResourceRequest& wanted) {
  std::vector<FreeCapacity> tried = capacities;
  for (FreeCapacity& capacity : tried) capacity.taken = 0;
  Packing packing(wanted);
  if (packing.Run(tried) < wanted.bundles.size()) return std::nullopt;
  std::vector<BundlePlace> places = packing.Take();
  for (size_t i = 0; i < places.size(); ++i) {
    const Resources& bundle = wanted.bundles[i];
    const std::vector<uint32_t>& gpus = places[i].gpus;
    FreeCapacity& capacity =
        *std::find_if(capacities.begin(), capacities.end(),
                      [&](const FreeCapacity& one) { return one.id == places[i].node; });
    capacity.free.Subtract(bundle);
    for (FreeDevice& device : capacity.devices)
      if (std::find(gpus.begin(), gpus.end(), device.index) != gpus.end())
        device.units -= UnitsPerDevice(bundle);
  }
  return places;
}

}  // namespace rt
