// A libnvidia-ml.so.1 for tests: its gpus are the lines of the file that FAKE_NVML names, read at
// every question, so that a test can let one fall off the bus.
//   UUID,NAME,BYTES,HEALTH[,KEY=N...]   a gpu
//   +UUID,NAME,BYTES,ok[,KEY=N...]      a MIG slice of the gpu above it, which is in MIG mode then
// HEALTH is ok, lost, reset, or hang: no call about its memory returns until the file says
// otherwise. The library does not start while the file that FAKE_NVML_HANG names exists. No call
// returns whose name is in the file that FAKE_NVML_HANG_IN names, such as nvmlDeviceGetUUID.
// Keys: util, mem_util, used (bytes), temp, power and limit (mW), sm, memclock (MHz), throttle,
// ecc, dbe, remapped, remap_failed, retired, links (NVLinks that are up), peer (they end at the gpu
// of this number), switch (at this NVSwitch), island (of one number: below one PCIe switch), gen,
// lanes, replays, pid and pid2 with pid_mem (who holds memory), xid
// (an event whenever N differs from the last reading of this process; 0: a double bit error).
// The numbers of codes and the order of arguments are those of nvml.h.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kNoDriver = 9,
              kTimeout = 10, kLost = 15, kReset = 16;

struct Line {
  std::string uuid, name, bytes, health;
  std::map<std::string, unsigned long long> numbers;
  std::vector<Line> slices;
};

// Handles are positions, 1 + gpu * 100 + 1 + slice, so that a later reading of the file finds them.
std::vector<Line> Lines() {
  std::vector<Line> gpus;
  const char* path = std::getenv("FAKE_NVML");
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string text; std::getline(file, text);) {
    if (text.empty()) continue;
    Line line;
    std::istringstream fields(text);
    std::getline(fields, line.uuid, ',');
    std::getline(fields, line.name, ',');
    std::getline(fields, line.bytes, ',');
    std::getline(fields, line.health, ',');
    for (std::string pair; std::getline(fields, pair, ',');) {
      const size_t equals = pair.find('=');
      if (equals == std::string::npos) continue;
      line.numbers[pair.substr(0, equals)] = std::strtoull(pair.c_str() + equals + 1, nullptr, 10);
    }
    const bool is_slice = line.uuid.starts_with('+');
    if (is_slice) line.uuid.erase(0, 1);
    (is_slice ? gpus.back().slices : gpus).push_back(line);
  }
  return gpus;
}

void* Handle(size_t gpu, size_t slice) { return reinterpret_cast<void*>(1 + gpu * 100 + slice); }

// The line of a handle; nothing when the file no longer has it.
std::vector<Line> Find(void* handle) {
  const size_t number = reinterpret_cast<uintptr_t>(handle) - 1;
  const std::vector<Line> gpus = Lines();
  if (number / 100 >= gpus.size()) return {};
  const Line& gpu = gpus[number / 100];
  if (number % 100 == 0) return {gpu};
  if (number % 100 > gpu.slices.size()) return {};
  return {gpu.slices[number % 100 - 1]};
}

int CodeOf(const Line& line) {
  return line.health == "lost" ? kLost : line.health == "reset" ? kReset : kSuccess;
}

// A number of a gpu's line; kNotSupported where it has none.
template <class Number>
int Tell(void* device, const char* key, Number* out) {
  const std::vector<Line> line = Find(device);
  if (line.empty()) return kLost;
  const auto found = line[0].numbers.find(key);
  if (found == line[0].numbers.end()) return kNotSupported;
  *out = static_cast<Number>(found->second);
  return CodeOf(line[0]);
}

void WaitWhileHanging(void* device) {
  for (;;) {
    const std::vector<Line> line = Find(device);
    if (line.empty() || line[0].health != "hang") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void WaitIn(const char* call) {
  const char* path = std::getenv("FAKE_NVML_HANG_IN");
  if (path == nullptr) return;
  for (;;) {
    std::ifstream file(path);
    std::string name;
    while (file >> name && name != call) continue;
    if (name != call) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int Text(const std::string& text, char* out, unsigned bytes) {
  if (text.size() >= bytes) return 7;
  std::strcpy(out, text.c_str());
  return kSuccess;
}

}  // namespace

extern "C" {

struct FakeMemory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() {
  WaitIn(__func__);
  const char* hang = std::getenv("FAKE_NVML_HANG");
  while (hang != nullptr && std::ifstream(hang).good())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return std::getenv("FAKE_NVML") == nullptr ? kNoDriver : kSuccess;
}
int nvmlShutdown() {
  WaitIn(__func__);
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  switch (code) {
    case kNoDriver: return "Driver Not Loaded";
    case kLost: return "GPU is lost";
    case kReset: return "GPU requires reset";
    default: return "Unknown Error";
  }
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  WaitIn(__func__);
  *count = static_cast<unsigned>(Lines().size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  WaitIn(__func__);
  if (index >= Lines().size()) return kInvalidArgument;
  *device = Handle(index, 0);
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* out, unsigned bytes) {
  WaitIn(__func__);
  const auto line = Find(device);
  return line.empty() ? kLost : Text(line[0].uuid, out, bytes);
}
int nvmlDeviceGetName(void* device, char* out, unsigned bytes) {
  WaitIn(__func__);
  const auto line = Find(device);
  return line.empty() ? kLost : Text(line[0].name, out, bytes);
}
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  WaitIn(__func__);
  const auto line = Find(device);
  if (line.empty()) return kLost;
  WaitWhileHanging(device);
  memory->total = std::strtoull(line[0].bytes.c_str(), nullptr, 10);
  const auto used = line[0].numbers.find("used");
  memory->used = used == line[0].numbers.end() ? 0 : used->second;
  memory->free = memory->total - memory->used;
  return CodeOf(line[0]);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  WaitIn(__func__);
  const auto line = Find(device);
  if (line.empty()) return kLost;
  *current = *pending = line[0].slices.empty() ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  WaitIn(__func__);
  *count = 7;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** slice) {
  WaitIn(__func__);
  const auto line = Find(device);
  if (line.empty() || index >= line[0].slices.size()) return kNotFound;
  *slice = Handle((reinterpret_cast<uintptr_t>(device) - 1) / 100, index + 1);
  return kSuccess;
}

struct FakeUtilisation {
  unsigned gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void* device, FakeUtilisation* out) {
  WaitIn(__func__);
  out->memory = 0;
  Tell(device, "mem_util", &out->memory);
  return Tell(device, "util", &out->gpu);
}
int nvmlDeviceGetTemperature(void* device, unsigned, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "temp", out);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "power", out);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "limit", out);
}
int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, type == 1 ? "sm" : "memclock", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* out) {
  WaitIn(__func__);
  return Tell(device, "throttle", out);
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned, unsigned long long* out) {
  WaitIn(__func__);
  return Tell(device, type == 0 ? "ecc" : "dbe", out);
}
int nvmlDeviceGetRetiredPages(void* device, unsigned cause, unsigned* count, unsigned long long*) {
  WaitIn(__func__);
  unsigned pages = 0;
  const int code = Tell(device, "retired", &pages);
  *count = cause == 0 ? pages : 0;
  return code;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  WaitIn(__func__);
  *corrected = *uncorrected = *pending = *failed = 0;
  Tell(device, "remap_failed", failed);
  return Tell(device, "remapped", uncorrected);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "gen", out);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "lanes", out);
}
int nvmlDeviceGetPcieReplayCounter(void* device, unsigned* out) {
  WaitIn(__func__);
  return Tell(device, "replays", out);
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* out) {
  WaitIn(__func__);
  unsigned links = 0;
  if (Tell(device, "links", &links) != kSuccess || link >= 18) return kNotSupported;
  *out = link < links ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(void* one, void* other, unsigned* level) {
  WaitIn(__func__);
  unsigned here = 0, there = 1;
  Tell(one, "island", &here);
  Tell(other, "island", &there);
  *level = here != 0 && here == there ? 10 : 50;
  return kSuccess;
}
struct FakePci {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
// The bus of the n-th gpu is 0x10 + n.
int nvmlDeviceGetPciInfo_v3(void* device, FakePci* pci) {
  WaitIn(__func__);
  *pci = {};
  pci->bus = 0x10 + static_cast<unsigned>((reinterpret_cast<uintptr_t>(device) - 1) / 100);
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, FakePci* pci) {
  WaitIn(__func__);
  *pci = {};
  unsigned number = 0;
  if (Tell(device, "peer", &number) == kSuccess) pci->bus = 0x10 + number;
  else if (Tell(device, "switch", &number) == kSuccess) pci->bus = 0xf0 + number;
  else return kNotSupported;
  return kSuccess;
}
struct FakeProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, FakeProcess* out) {
  WaitIn(__func__);
  unsigned listed = 0;
  for (const char* key : {"pid", "pid2"}) {
    FakeProcess process{};
    if (Tell(device, key, &process.pid) != kSuccess || process.pid == 0) continue;
    Tell(device, "pid_mem", &process.memory);
    out[listed++] = process;
  }
  *count = listed;
  return kSuccess;
}

struct FakeEvent {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetCreate(void** set) {
  WaitIn(__func__);
  static int all = 0;
  *set = &all;
  return kSuccess;
}
int nvmlEventSetFree(void*) {
  WaitIn(__func__);
  return kSuccess;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
  WaitIn(__func__);
  return kSuccess;
}
int nvmlEventSetWait_v2(void*, FakeEvent* event, unsigned timeout_ms) {
  WaitIn(__func__);
  static std::mutex mutex;
  static std::map<std::string, unsigned long long> told;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  do {
    std::lock_guard lock(mutex);
    const std::vector<Line> gpus = Lines();
    for (size_t i = 0; i < gpus.size(); ++i) {
      const auto xid = gpus[i].numbers.find("xid");
      if (xid == gpus[i].numbers.end()) {
        told[gpus[i].uuid] = ~0ull;
        continue;
      }
      const auto at = told.try_emplace(gpus[i].uuid, ~0ull).first;
      if (at->second == xid->second) continue;
      at->second = xid->second;
      *event = {Handle(i, 0), xid->second == 0 ? 2ull : 8ull, xid->second, 0, 0};
      return kSuccess;
    }
  } while (std::this_thread::sleep_for(std::chrono::milliseconds(10)),
           std::chrono::steady_clock::now() < end);
  return kTimeout;
}

}  // extern "C"
