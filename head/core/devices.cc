#include "head/core/devices.h"

#include <algorithm>

namespace rt {
namespace {

FreeDevice FreeOf(uint32_t number, int64_t capacity, const NodeIndex& index, uint32_t island) {
  auto used = index.gpus_used.find(number);
  const int64_t in_use = used == index.gpus_used.end() ? 0 : used->second;
  return {number, std::max<int64_t>(0, capacity - in_use), island};
}

}  // namespace

std::vector<FreeDevice> FreeDevices(const Node& node, const NodeIndex& index) {
  std::vector<FreeDevice> devices;
  int64_t left = node.inventory.resources.gpu;  // A node may offer less than a last whole device.
  auto add = [&](uint32_t number, uint32_t island) {
    const int64_t capacity = std::min(left, kUnit);
    left -= capacity;
    devices.push_back(FreeOf(number, capacity, index, island));
  };
  for (const GpuInfo& gpu : node.inventory.gpus)
    if (gpu.fault.empty() && left > 0) add(gpu.index, gpu.island);
  if (node.inventory.gpus.empty())
    for (uint32_t number = 0; left > 0; ++number) add(number, 0);
  return devices;
}

}  // namespace rt
