#include "worker/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/run/clock.h"
#include "worker/gpu/nvml_library.h"
#include "worker/gpu/symbols.h"

namespace rt::worker {
namespace {

using nvml::Device;
using nvml::kSuccess;

// A gpu that answers so cannot compute until somebody resets it.
bool IsBroken(int code) { return code == nvml::kGpuIsLost || code == nvml::kResetRequired; }

// "0000:3b:00" of "00000000:3B:00.0", as the kernel's log has it.
std::string BusOf(const nvml::Pci& pci) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x", pci.domain, pci.bus, pci.device);
  return text;
}

}  // namespace

Nvml::Library::~Library() {
  if (events != nullptr) event_free(events);
  if (is_initialised) shutdown();
  if (handle != nullptr) ::dlclose(handle);
}

Nvml::Library::Asking::Asking(const Library& library, const std::string& uuid) : library_(library) {
  std::lock_guard lock(library_.asked_mutex);
  library_.asked = {uuid, SteadyClock()};
}

Nvml::Library::Asking::~Asking() {
  std::lock_guard lock(library_.asked_mutex);
  library_.asked = {};
}

template <class Function>
bool Nvml::Library::Find(Function& function, const char* symbol) {
  return FindSymbol(handle, symbol, function);
}

void Nvml::Library::FindTelemetry() {
  Find(memory_v2, "nvmlDeviceGetMemoryInfo_v2");
  Find(utilisation, "nvmlDeviceGetUtilizationRates");
  Find(temperature, "nvmlDeviceGetTemperature");
  Find(power, "nvmlDeviceGetPowerUsage");
  Find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  Find(clock, "nvmlDeviceGetClockInfo");
  Find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  Find(ecc, "nvmlDeviceGetTotalEccErrors");
  Find(retired, "nvmlDeviceGetRetiredPages");
  Find(remapped, "nvmlDeviceGetRemappedRows");
  Find(pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  Find(pcie_lanes, "nvmlDeviceGetCurrPcieLinkWidth");
  Find(pcie_replays, "nvmlDeviceGetPcieReplayCounter");
  Find(fields, "nvmlDeviceGetFieldValues");
  Find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
}

int Nvml::Library::MemoryOf(Device one, nvml::Memory& bytes) const {
  nvml::MemoryV2 second{};
  second.version = nvml::kMemoryVersion2;
  if (memory_v2 == nullptr || memory_v2(one, &second) != kSuccess) return memory(one, &bytes);
  bytes = {second.total, second.free, second.used};
  return kSuccess;
}

bool Nvml::Library::FindAll() {
  Find(mig_mode, "nvmlDeviceGetMigMode");
  Find(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
  Find(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex");
  Find(pci, "nvmlDeviceGetPciInfo_v3");
  Find(ancestor, "nvmlDeviceGetTopologyCommonAncestor");
  Find(link_state, "nvmlDeviceGetNvLinkState");
  Find(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  FindTelemetry();
  Find(event_set, "nvmlEventSetCreate");
  Find(event_register, "nvmlDeviceRegisterEvents");
  Find(event_wait, "nvmlEventSetWait_v2");
  Find(event_free, "nvmlEventSetFree");
  return Find(init, "nvmlInit_v2") && Find(shutdown, "nvmlShutdown") &&
         Find(error_string, "nvmlErrorString") && Find(count, "nvmlDeviceGetCount_v2") &&
         Find(device, "nvmlDeviceGetHandleByIndex_v2") && Find(uuid, "nvmlDeviceGetUUID") &&
         Find(name, "nvmlDeviceGetName") && Find(memory, "nvmlDeviceGetMemoryInfo");
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

absl::StatusOr<Nvml> Nvml::Open() {
  auto library = std::make_unique<Library>();
  library->handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return NotFound("there is no libnvidia-ml.so.1");
  if (!library->FindAll())
    return absl::FailedPreconditionError("libnvidia-ml.so.1 lacks functions that rt needs");
  if (int code = library->init(); code != kSuccess)
    return absl::FailedPreconditionError(library->Why(code));
  library->is_initialised = true;
  return Nvml(std::move(library));
}

// Nothing is said of a gpu whose uuid cannot be read: no program could be given it.
void Nvml::Describe(const Library& library, Device one, std::vector<FoundGpu>& found) {
  char text[nvml::kNameBytes] = "";
  if (library.uuid(one, text, sizeof text) != kSuccess || text[0] == '\0') return;
  FoundGpu gpu;
  gpu.uuid = text;
  const Library::Asking asking(library, gpu.uuid);
  if (library.name(one, text, sizeof text) == kSuccess) gpu.name = text;
  nvml::Memory bytes{};
  const int code = library.memory(one, &bytes);
  if (code == kSuccess) gpu.memory = static_cast<Bytes>(bytes.total);
  if (IsBroken(code)) gpu.fault = library.Why(code);
  nvml::Pci pci{};
  if (library.pci != nullptr && library.pci(one, &pci) == kSuccess) gpu.bus = BusOf(pci);
  found.push_back(std::move(gpu));
}

void Nvml::DescribeSlices(Library& library, Device one, unsigned number,
                          std::vector<FoundGpu>& found) {
  unsigned slots = 0;
  nvml::Pci pci{};
  const bool has_bus = library.pci != nullptr && library.pci(one, &pci) == kSuccess;
  if (library.mig_count(one, &slots) != kSuccess) return;
  for (unsigned slot = 0; slot < slots; ++slot) {
    Device slice = nullptr;
    if (library.mig_device(one, slot, &slice) != kSuccess) continue;
    const size_t before = found.size();
    Describe(library, slice, found);
    if (found.size() == before) continue;
    if (has_bus) found.back().bus = BusOf(pci);
    library.listed.push_back({found.back().uuid, slice, one, number});
  }
}

Nvml::Library::Links Nvml::Library::LinksOf(Device one) const {
  Links links;
  for (unsigned link = 0; link_state != nullptr && link < nvml::kLinksMax; ++link) {
    unsigned is_up = 0;
    if (link_state(one, link, &is_up) != kSuccess) break;
    if (is_up == 0) continue;
    nvml::Pci remote{};
    if (link_pci != nullptr && link_pci(one, link, &remote) == kSuccess)
      links.ends.insert(BusOf(remote));
    else links.has_unknown = true;
  }
  return links;
}

// Those that one number is given to are joined each with each: by NVLink, directly or by a switch,
// or else by one PCIe switch. Slices are joined to nothing. A driver that does not say where a link
// ends is taken to join all gpus that have such links.
void Nvml::FindIslands(const Library& library, std::vector<FoundGpu>& found) {
  std::vector<Library::Links> links(found.size());
  std::set<std::string> buses;
  for (const FoundGpu& gpu : found) buses.insert(gpu.bus);
  const auto is_slice = [&](size_t i) {
    return library.listed[i].device != library.listed[i].whole;
  };
  const auto is_joined = [&](size_t i, size_t j) {
    if (is_slice(i) || is_slice(j)) return false;
    const Library::Links &one = links[i], &other = links[j];
    if (one.has_unknown && other.has_unknown) return true;
    if (one.ends.contains(found[j].bus) || other.ends.contains(found[i].bus)) return true;
    for (const std::string& end : one.ends)  // A switch, where it is no gpu.
      if (other.ends.contains(end) && !buses.contains(end)) return true;
    unsigned level = ~0u;
    const bool is_told =
        library.ancestor != nullptr &&
        library.ancestor(library.listed[i].device, library.listed[j].device, &level) == kSuccess;
    return is_told && level <= nvml::kTopologySingleSwitch;
  };
  std::map<uint32_t, std::vector<size_t>> islands;
  for (size_t i = 0; i < found.size(); ++i) {
    const Library::Asking asking(library, found[i].uuid);
    if (!is_slice(i)) links[i] = library.LinksOf(library.listed[i].device);
    found[i].island = static_cast<uint32_t>(i);
    for (const auto& [island, members] : islands) {
      if (!std::all_of(members.begin(), members.end(),
                       [&, i](size_t member) { return is_joined(i, member); }))
        continue;
      found[i].island = island;
      break;
    }
    islands[found[i].island].push_back(i);
  }
}

// The gpu of this number or its slices. `known`: what was its uuid the last time; "": unknown.
void Nvml::ListOne(Library& library, unsigned number, const std::string& known,
                   std::vector<FoundGpu>& found) {
  Device one = nullptr;
  bool is_sliced = false;
  {
    const Library::Asking asking(library, known);
    if (library.device(number, &one) != kSuccess) return;
    unsigned current = 0, pending = 0;
    is_sliced = library.mig_mode != nullptr && library.mig_count != nullptr &&
                library.mig_device != nullptr &&
                library.mig_mode(one, &current, &pending) == kSuccess && current == 1;
  }
  if (is_sliced) return DescribeSlices(library, one, number, found);
  const size_t before = found.size();
  Describe(library, one, found);
  if (found.size() > before) library.listed.push_back({found.back().uuid, one, one, number});
}

Nvml::Asked Nvml::asked() const {
  std::lock_guard lock(library_->asked_mutex);
  return library_->asked;
}

absl::StatusOr<std::vector<FoundGpu>> Nvml::List() const {
  std::vector<FoundGpu> found;
  unsigned count = 0;
  Library& library = *library_;
  if (int code = library.count(&count); code != kSuccess)
    return absl::UnavailableError(library.Why(code));
  std::vector<Library::Listed> before;
  {
    std::lock_guard lock(library.mutex);
    before = std::move(library.listed);
    library.listed.clear();
    for (unsigned i = 0; i < count; ++i) {
      const auto known =
          std::find_if(before.begin(), before.end(),
                       [i](const Library::Listed& listed) { return listed.number == i; });
      ListOne(library, i, known == before.end() ? "" : known->uuid, found);
    }
    FindIslands(library, found);
  }
  return found;
}

}  // namespace rt::worker
