// The functions of libnvidia-ml.so.1 that rt calls, found at run time. Types, numbers and the order
// of arguments are those of nvml.h, whose ABI they are. Only worker/gpu/nvml*.cc include this.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "worker/gpu/nvml.h"

namespace rt::worker {
namespace nvml {

using Device = void*;
using EventSet = void*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kTimeout = 10;
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr unsigned kNameBytes = 96;
constexpr unsigned kClockSm = 1, kClockMemory = 2;
constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kCorrected = 0, kUncorrected = 1, kSinceLoad = 0;
constexpr unsigned kTopologySingleSwitch = 10;
constexpr unsigned kLinksMax = 36;
constexpr unsigned long long kDoubleBitEcc = 0x2, kXid = 0x8;
constexpr unsigned kFieldNvlinkSent = 138, kFieldNvlinkReceived = 139;  // KiB.
constexpr unsigned kFieldPcieSent = 197, kFieldPcieReceived = 198;      // Bytes.
constexpr unsigned kAllLinks = 0xffffffffu;

struct Memory {
  unsigned long long total, free, used;
};
// What the driver keeps for itself is not in use, as nvidia-smi counts as well.
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryVersion2 = sizeof(MemoryV2) | 2u << 24;
struct Utilisation {
  unsigned gpu, memory;
};
struct Pci {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct Event {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type;  // 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 signed long long.
  int code;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_unsigned_long_long;
    long long as_long_long;
  } value;
};

}  // namespace nvml

struct Nvml::Library {
  using Device = nvml::Device;
  void* handle = nullptr;
  bool is_initialised = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, nvml::Memory*) = nullptr;
  // The rest may be absent from a library that is older than the function.
  int (*memory_v2)(Device, nvml::MemoryV2*) = nullptr;
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(Device, unsigned*) = nullptr;
  int (*mig_device)(Device, unsigned, Device*) = nullptr;
  int (*pci)(Device, nvml::Pci*) = nullptr;
  int (*ancestor)(Device, Device, unsigned*) = nullptr;
  int (*link_state)(Device, unsigned, unsigned*) = nullptr;
  int (*link_pci)(Device, unsigned, nvml::Pci*) = nullptr;
  int (*utilisation)(Device, nvml::Utilisation*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*power_limit)(Device, unsigned*) = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*throttle)(Device, unsigned long long*) = nullptr;
  int (*ecc)(Device, unsigned, unsigned, unsigned long long*) = nullptr;
  int (*retired)(Device, unsigned, unsigned*, unsigned long long*) = nullptr;
  int (*remapped)(Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*pcie_generation)(Device, unsigned*) = nullptr;
  int (*pcie_lanes)(Device, unsigned*) = nullptr;
  int (*pcie_replays)(Device, unsigned*) = nullptr;
  int (*fields)(Device, int, nvml::FieldValue*) = nullptr;
  int (*processes)(Device, unsigned*, nvml::Process*) = nullptr;
  int (*event_set)(nvml::EventSet*) = nullptr;
  int (*event_register)(Device, unsigned long long, nvml::EventSet) = nullptr;
  int (*event_wait)(nvml::EventSet, nvml::Event*, unsigned) = nullptr;
  int (*event_free)(nvml::EventSet) = nullptr;

  // What the last List found. A slice has the handle of the device that it is a part of as well.
  struct Listed {
    std::string uuid;
    Device device = nullptr;
    Device whole = nullptr;
    unsigned number = 0;  // The library's, of `whole`.
  };
  // What Nvml::asked says.
  mutable std::mutex asked_mutex;
  mutable Asked asked;
  // Lives as long as the library is asked about this gpu. One at a time.
  class Asking {
   public:
    Asking(const Library& library, const std::string& uuid);
    ~Asking();
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    const Library& library_;
  };
  mutable std::mutex mutex;
  std::vector<Listed> listed;
  nvml::EventSet events = nullptr;
  std::map<Device, bool> registered;  // Whether the driver tells its events.

  // The NVLinks of a gpu that are up.
  struct Links {
    std::set<std::string> ends;  // The buses of what they lead to.
    bool has_unknown = false;    // The driver does not say where one ends.
  };

  ~Library();
  bool FindAll();
  Links LinksOf(Device one) const;
  int MemoryOf(Device one, nvml::Memory& bytes) const;
  std::string Why(int code) const { return "NVML: " + std::string(error_string(code)); }
  std::vector<Listed> all_listed() const {
    std::lock_guard lock(mutex);
    return listed;
  }

 private:
  template <class Function>
  bool Find(Function& function, const char* symbol);
  void FindTelemetry();
};

}  // namespace rt::worker
