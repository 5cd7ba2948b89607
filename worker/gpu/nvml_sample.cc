// What NVML tells of gpus at work. Each number that a device or a driver does not tell stays -1.
#include <algorithm>

#include "worker/gpu/nvml.h"
#include "worker/gpu/nvml_library.h"

namespace rt::worker {
namespace {

using nvml::kSuccess;

constexpr unsigned kProcessesFirst = 64;
constexpr unsigned long long kUnknownMemory = ~0ull;

template <class Function>
int64_t Ask(Function function, nvml::Device device) {
  unsigned value = 0;
  return function != nullptr && function(device, &value) == kSuccess ? int64_t{value} : -1;
}

int64_t NumberOf(const nvml::FieldValue& field) {
  if (field.code != kSuccess) return -1;
  if (field.type == 1) return field.value.as_unsigned;
  if (field.type == 0) return static_cast<int64_t>(field.value.as_double);
  return static_cast<int64_t>(field.value.as_unsigned_long_long);
}

bool ReadProcesses(int (*ask)(nvml::Device, unsigned*, nvml::Process*), nvml::Device device,
                   std::vector<GpuProcess>& processes) {
  if (ask == nullptr) return false;
  std::vector<nvml::Process> list(kProcessesFirst);
  unsigned count = kProcessesFirst;
  int code = ask(device, &count, list.data());
  if (code == nvml::kInsufficientSize) {
    list.resize(count + kProcessesFirst);
    count = static_cast<unsigned>(list.size());
    code = ask(device, &count, list.data());
  }
  if (code != kSuccess) return false;
  for (unsigned i = 0; i < std::min<size_t>(count, list.size()); ++i) {
    const bool is_told = list[i].memory != kUnknownMemory;
    processes.push_back({.pid = list[i].pid,
                         .memory = is_told ? static_cast<Bytes>(list[i].memory) : 0,
                         .name = "",
                         .attempt = ""});
  }
  return true;
}

}  // namespace

void Nvml::SampleErrors(const Library& library, void* device, GpuSample& sample) {
  unsigned long long wide = 0;
  auto errors = [&](unsigned kind) -> int64_t {
    const bool is_told =
        library.ecc != nullptr && library.ecc(device, kind, nvml::kSinceLoad, &wide) == kSuccess;
    return is_told ? static_cast<int64_t>(wide) : -1;
  };
  sample.ecc_corrected = errors(nvml::kCorrected);
  sample.ecc_uncorrected = errors(nvml::kUncorrected);
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (library.remapped != nullptr &&
      library.remapped(device, &corrected, &uncorrected, &pending, &failed) == kSuccess) {
    sample.remapped_rows = int64_t{corrected} + uncorrected;
    sample.remap_pending = pending != 0;
    sample.remap_failed = failed != 0;
  } else if (library.retired != nullptr) {
    for (unsigned cause : {0u, 1u}) {  // Single and double bit errors; the number only.
      unsigned count = 0;
      const int code = library.retired(device, cause, &count, nullptr);
      if (code != kSuccess && code != nvml::kInsufficientSize) continue;
      sample.retired_pages = std::max<int64_t>(0, sample.retired_pages) + count;
    }
  }
}

void Nvml::SampleLinks(const Library& library, void* device, GpuSample& sample) {
  sample.pcie_generation = Ask(library.pcie_generation, device);
  sample.pcie_lanes = Ask(library.pcie_lanes, device);
  sample.pcie_replays = Ask(library.pcie_replays, device);
  for (unsigned link = 0; library.link_state != nullptr && link < nvml::kLinksMax; ++link) {
    unsigned is_up = 0;
    if (library.link_state(device, link, &is_up) != kSuccess) break;
    sample.nvlinks_up = std::max<int64_t>(0, sample.nvlinks_up) + (is_up != 0 ? 1 : 0);
  }
  if (library.fields != nullptr) {
    nvml::FieldValue values[4] = {};
    values[0].field = nvml::kFieldPcieSent;
    values[1].field = nvml::kFieldPcieReceived;
    values[2].field = nvml::kFieldNvlinkSent;
    values[3].field = nvml::kFieldNvlinkReceived;
    values[2].scope = values[3].scope = nvml::kAllLinks;
    const bool has_links = sample.nvlinks_up > 0;
    if (library.fields(device, has_links ? 4 : 2, values) == kSuccess) {
      constexpr int64_t kKib = 1024;
      sample.pcie_sent = NumberOf(values[0]);
      sample.pcie_received = NumberOf(values[1]);
      const int64_t sent = has_links ? NumberOf(values[2]) : -1;
      const int64_t received = has_links ? NumberOf(values[3]) : -1;
      if (sent >= 0) sample.nvlink_sent = sent * kKib;
      if (received >= 0) sample.nvlink_received = received * kKib;
    }
  }
}

GpuSample Nvml::SampleOf(const Library& library, const std::string& uuid, void* device,
                         const GpuSample* last) {
  const Library::Asking asking(library, uuid);
  GpuSample sample = last == nullptr ? GpuSample{} : *last;
  sample.uuid = uuid;
  sample.processes.clear();
  if (last == nullptr) {
    SampleErrors(library, device, sample);
    SampleLinks(library, device, sample);
    sample.power_limit_milliwatts = Ask(library.power_limit, device);
  }
  nvml::Utilisation busy{};
  if (library.utilisation != nullptr && library.utilisation(device, &busy) == kSuccess) {
    sample.utilisation = busy.gpu;
    sample.memory_utilisation = busy.memory;
  }
  nvml::Memory memory{};
  if (library.MemoryOf(device, memory) == kSuccess) {
    sample.memory_used = static_cast<Bytes>(memory.used);
    sample.memory_total = static_cast<Bytes>(memory.total);
  }
  unsigned value = 0;
  if (library.temperature != nullptr &&
      library.temperature(device, nvml::kTemperatureOfGpu, &value) == kSuccess)
    sample.temperature = value;
  sample.power_milliwatts = Ask(library.power, device);
  if (library.clock != nullptr && library.clock(device, nvml::kClockSm, &value) == kSuccess)
    sample.sm_mhz = value;
  if (library.clock != nullptr && library.clock(device, nvml::kClockMemory, &value) == kSuccess)
    sample.memory_mhz = value;
  unsigned long long wide = 0;
  if (library.throttle != nullptr && library.throttle(device, &wide) == kSuccess)
    sample.throttle = static_cast<int64_t>(wide);
  ReadProcesses(library.processes, device, sample.processes);
  return sample;
}

std::vector<GpuSample> Nvml::Sample(const std::vector<GpuSample>& last) const {
  std::vector<GpuSample> samples;
  for (const Library::Listed& one : library_->all_listed()) {
    const auto same = std::find_if(
        last.begin(), last.end(), [&](const GpuSample& sample) { return sample.uuid == one.uuid; });
    samples.push_back(
        SampleOf(*library_, one.uuid, one.device, same == last.end() ? nullptr : &*same));
  }
  return samples;
}

std::optional<GpuHolders> Nvml::HoldersOf(const std::string& uuid) const {
  for (const Library::Listed& one : library_->all_listed()) {
    if (one.uuid != uuid) continue;
    const Library::Asking asking(*library_, uuid);
    GpuHolders holders;
    nvml::Memory memory{};
    if (library_->MemoryOf(one.device, memory) != kSuccess) return std::nullopt;
    holders.used = static_cast<Bytes>(memory.used);
    ReadProcesses(library_->processes, one.device, holders.processes);
    return holders;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<GpuEvent>> Nvml::WaitForEvent(Millis wait) const {
  Library& library = *library_;
  const bool has_events = library.event_set != nullptr && library.event_register != nullptr &&
                          library.event_wait != nullptr && library.event_free != nullptr;
  if (!has_events) return absl::FailedPreconditionError("NVML has no events");
  if (library.events == nullptr && library.event_set(&library.events) != kSuccess)
    return absl::FailedPreconditionError("NVML makes no set of events");
  bool any = false;
  const std::vector<Library::Listed> listed = library.all_listed();
  for (const Library::Listed& one : listed) {
    const auto [at, is_new] = library.registered.try_emplace(one.whole, false);
    if (is_new)
      at->second = library.event_register(one.whole, nvml::kXid | nvml::kDoubleBitEcc,
                                          library.events) == kSuccess;
    any = any || at->second;
  }
  if (!any) return absl::FailedPreconditionError("no gpu tells its events");
  nvml::Event event{};
  const int code = library.event_wait(library.events, &event, static_cast<unsigned>(wait));
  if (code == nvml::kTimeout) return std::nullopt;
  if (code != kSuccess) return absl::UnavailableError(library.Why(code));
  GpuEvent told;
  told.xid = event.type == nvml::kXid ? event.data : 0;
  for (const Library::Listed& one : listed)
    if (one.whole == event.device) told.uuids.push_back(one.uuid);
  return told;
}

}  // namespace rt::worker
