// How the bundles of a request are put into what nodes have free: all of them, or as many as fit.
// The head places attempts with it, and `rt plan` counts what runs side by side. Pure.
//
// A request below one gpu lies on one device; whole gpus take whole devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/spec/resource_request.h"

namespace rt {

struct FreeDevice {
  uint32_t index = 0;
  int64_t units = 0;  // Free, at most kUnit.
  uint32_t island = 0;  // Devices of one number are joined by a fast link.
};

// The largest gpu request that can be met now. With w whole devices free and p units on the fullest
// of the others it is w * kUnit + p, and exactly the requests not above it fit: a share needs p or
// a whole device, n whole ones need w >= n.
int64_t LargestGpuRequest(const std::vector<FreeDevice>& devices);

// Takes `units` out of `devices` and says where; nullopt when they do not fit. A share goes to the
// fullest device on which it fits or, with `spread`, to the emptiest; the lower index wins a tie.
// Several whole ones come from one island if they can, from the one with the fewest free; otherwise
// from as few islands as they can.
std::optional<std::vector<uint32_t>> TakeDevices(std::vector<FreeDevice>& devices, int64_t units,
                                                 bool spread);

// What each device of a bundle gives to it.
inline int64_t UnitsPerDevice(const Resources& bundle) {
  return bundle.gpu < kUnit ? bundle.gpu : kUnit;
}

// What is left of a node while bundles are tried on it.
struct FreeCapacity {
  NodeId id;
  Resources free;  // Its gpus are those of `devices`.
  std::vector<FreeDevice> devices;
  size_t taken = 0;  // Bundles of the request that is tried now.
};

// Takes one bundle, given as its gpus and the rest, out of a node and says on which devices;
// nullopt, with nothing taken, when it does not fit.
std::optional<std::vector<uint32_t>> TakeBundle(FreeCapacity& capacity,
                                                const Resources& without_gpu, int64_t gpu,
                                                bool spread_gpus);

// Where one bundle went.
struct BundlePlace {
  NodeId node;
  std::vector<uint32_t> gpus;  // Indices of its devices.
};

// Tries the bundles of a request on the capacity of nodes, the biggest first, and remembers where.
class Packing {
 public:
  explicit Packing(const ResourceRequest& wanted);
  // How many bundles found a place. `capacities` come with the fullest first and `taken` 0;
  // placed bundles are subtracted, also when not all of them fit.
  size_t Run(std::vector<FreeCapacity>& capacities);
  std::vector<BundlePlace> Take() { return std::move(places_); }  // By bundle.

 private:
  bool Put(FreeCapacity& capacity, size_t bundle);
  std::vector<size_t> Fill(FreeCapacity& capacity, const std::vector<size_t>& left);
  size_t Pack(std::vector<FreeCapacity>& capacities);
  size_t FillOne(std::vector<FreeCapacity>& capacities);
  size_t Spread(std::vector<FreeCapacity>& capacities, size_t shared_max);
  size_t PutGroups(std::vector<FreeCapacity>& capacities);

  const ResourceRequest& wanted_;
  std::vector<size_t> order_;  // Of the bundles: the biggest first.
  std::vector<Resources> without_gpu_;  // By bundle.
  std::vector<BundlePlace> places_;
};

// Places all bundles and subtracts them from the capacities. nullopt: not all of them fit, and
// nothing is subtracted.
std::optional<std::vector<BundlePlace>> PackAll(std::vector<FreeCapacity>& capacities,
                                                const ResourceRequest& wanted);

}  // namespace rt
