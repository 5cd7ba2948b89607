// Which gpus a worker offers, out of those that its machine has. Pure functions; what they remember
// between daemons of one boot is text that the caller keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/gpu/nvml.h"

namespace rt::worker {

// A gpu under its number, which it keeps while the machine is up: attempts are known by it.
struct Gpu {
  uint32_t index = 0;
  FoundGpu facts;
  uint64_t quarantine = 0;  // Its number; 0: it is not quarantined. Then facts.fault says why.
  bool by_hand = false;     // Only a person ends it.
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// Numbers for what was found: those known keep theirs, new ones get the next. One that is known and
// was not found has a fault.
std::vector<Gpu> NumberGpus(std::vector<Gpu> known, const std::vector<FoundGpu>& found);

// Of all of them (common/spec/gpu_type.h); empty if they differ.
std::string CommonType(const std::vector<Gpu>& gpus);

// What the next daemon gets as `known`, if the machine was not booted in between.
std::string RememberGpus(const std::vector<Gpu>& gpus, const std::string& boot_id);
std::vector<Gpu> RecallGpus(const std::string& text, const std::string& boot_id);

// The worker's part of the machine's gpus.
struct GpuChoice {
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, as the daemon was given it.
  uint32_t share = 0, shares = 1;      // The share-th of so many workers of this machine, from 0.
  std::optional<int64_t> units;        // What --resources says of gpus.
};
// Without a gpu that can be named, `units` makes gpus that are called by their numbers. An error
// when there are fewer gpus than `units` says.
absl::StatusOr<std::vector<Gpu>> ChooseGpus(const std::vector<Gpu>& all, const GpuChoice& choice);

// What they can take: one each that is well, and not more than `units`.
int64_t GpuUnits(const std::vector<Gpu>& gpus, const GpuChoice& choice);

}  // namespace rt::worker
