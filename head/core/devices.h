// The gpus of one node as placement sees them: how much of each is free, and which of them a
// request gets. A request below one gpu lies on one device; whole ones take whole devices. A node
// that names no devices has unnamed ones, numbered from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "head/core/state.h"

namespace rt {

struct FreeDevice {
  uint32_t index = 0;
  int64_t units = 0;  // Free, at most kUnit.
};

// The healthy ones, ascending by index; also those with nothing free.
std::vector<FreeDevice> FreeDevices(const Node& node, const NodeIndex& index);

// The largest gpu request that can be met now. With w whole devices free and p units on the fullest
// of the others it is w * kUnit + p, and exactly the requests not above it fit: a share needs p or
// a whole device, n whole ones need w >= n.
int64_t LargestGpuRequest(const std::vector<FreeDevice>& devices);

// Takes `units` out of `devices` and says where; nullopt when they do not fit. A share goes to the
// fullest device that has room, or, with `spread`, to the emptiest; the lower index wins a tie.
std::optional<std::vector<uint32_t>> TakeDevices(std::vector<FreeDevice>& devices, int64_t units,
                                                 bool spread);

// What each device of a member gives to it.
inline int64_t UnitsPerDevice(const Resources& bundle) {
  return bundle.gpu < kUnit ? bundle.gpu : kUnit;
}

}  // namespace rt
