#include "head/core/devices.h"

#include <algorithm>

namespace rt {
namespace {

FreeDevice FreeOf(uint32_t number, int64_t capacity, const NodeIndex& index) {
  auto used = index.gpus_used.find(number);
  const int64_t held = used == index.gpus_used.end() ? 0 : used->second;
  return {number, std::max<int64_t>(0, capacity - held)};
}

}  // namespace

std::vector<FreeDevice> FreeDevices(const Node& node, const NodeIndex& index) {
  std::vector<FreeDevice> devices;
  int64_t left = node.inventory.resources.gpu;  // A node may offer less than a last whole device.
  auto add = [&](uint32_t number) {
    const int64_t capacity = std::min(left, kUnit);
    left -= capacity;
    devices.push_back(FreeOf(number, capacity, index));
  };
  for (const GpuInfo& gpu : node.inventory.gpus)
    if (gpu.trouble.empty() && left > 0) add(gpu.index);
  if (node.inventory.gpus.empty())
    for (uint32_t number = 0; left > 0; ++number) add(number);
  return devices;
}

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
  for (size_t i = 0; i < count; ++i) {
    whole[i]->units = 0;
    chosen.push_back(whole[i]->index);
  }
  return chosen;
}

}  // namespace rt
