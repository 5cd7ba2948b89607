// What a worker tells of its gpus: a sample of each one every second, and what one rank made of
// those that it held. Their lists of fields are what the wire is made of. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/time.h"

namespace rt {

// The class of an error of which the user's program ran out of gpu memory, whatever its library
// calls it.
inline constexpr char kGpuOutOfMemory[] = "CudaOutOfMemory";

// What an attempt made of the gpus of one rank. Means and peaks are over samples of each device.
struct GpuUse {
  uint32_t devices = 0;         // 0: it had none.
  uint64_t samples = 0;         // 0: nothing was sampled, and only device_ms says anything.
  uint64_t idle_samples = 0;    // In which the device computed nothing.
  Millis device_ms = 0;         // Devices times the time for which they were held.
  double utilisation_mean = 0;  // Percent.
  double utilisation_peak = 0;
  double memory_mean = 0;  // Bytes of one device.
  Bytes memory_peak = 0;
  Bytes memory_size = 0;  // Of the device that had the peak.
  double power_mean = 0;  // Watts.
  double power_peak = 0;
  double temperature_peak = 0;  // Degrees Celsius.
  RT_FIELDS(GpuUse, devices, samples, idle_samples, device_ms, utilisation_mean, utilisation_peak,
            memory_mean, memory_peak, memory_size, power_mean, power_peak, temperature_peak);
};

// That of one more rank of the same attempt, or of one more generation.
GpuUse Together(const GpuUse& one, const GpuUse& other);

// A process that has memory of a device.
struct GpuProcess {
  uint64_t pid = 0;
  Bytes memory = 0;  // 0: the driver does not tell.
  std::string name;
  std::string attempt;  // "t1-0.a1.r0"; empty: not one of this worker's.
  RT_FIELDS(GpuProcess, pid, memory, name, attempt);
};

// One device at one moment. A number that the device does not tell is -1.
struct GpuSample {
  std::string uuid;
  Millis at = 0;
  int64_t utilisation = -1;         // Percent of the last second in which it computed.
  int64_t memory_utilisation = -1;  // Percent of the last second in which it moved memory.
  Bytes memory_used = -1;
  Bytes memory_total = -1;
  int64_t temperature = -1;  // Degrees Celsius.
  int64_t power_milliwatts = -1;
  int64_t power_limit_milliwatts = -1;
  int64_t sm_mhz = -1;
  int64_t memory_mhz = -1;
  int64_t throttle = -1;       // NVML's bits, see ThrottleNames.
  int64_t ecc_corrected = -1;  // Since the driver was loaded.
  int64_t ecc_uncorrected = -1;
  int64_t retired_pages = -1;  // Devices before Ampere.
  int64_t remapped_rows = -1;  // Since.
  bool remap_pending = false;  // A reset of the device is needed for it.
  bool remap_failed = false;
  int64_t nvlinks_up = -1;
  int64_t nvlink_sent = -1;  // Bytes since the driver was loaded.
  int64_t nvlink_received = -1;
  int64_t pcie_generation = -1;
  int64_t pcie_lanes = -1;
  int64_t pcie_sent = -1;  // Bytes, as of NVLink.
  int64_t pcie_received = -1;
  int64_t pcie_replays = -1;
  std::vector<GpuProcess> processes;
  RT_FIELDS(GpuSample, uuid, at, utilisation, memory_utilisation, memory_used, memory_total,
            temperature, power_milliwatts, power_limit_milliwatts, sm_mhz, memory_mhz, throttle,
            ecc_corrected, ecc_uncorrected, retired_pages, remapped_rows, remap_pending,
            remap_failed, nvlinks_up, nvlink_sent, nvlink_received, pcie_generation, pcie_lanes,
            pcie_sent, pcie_received, pcie_replays, processes);
};

// What slows the clocks now: "power", "thermal", "hardware", …; idleness and settings do not count.
std::vector<std::string> ThrottleNames(int64_t bits);

}  // namespace rt
