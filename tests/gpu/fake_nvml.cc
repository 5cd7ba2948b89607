// A libnvidia-ml.so.1 for tests: its gpus are the lines of the file that FAKE_NVML names, read at
// every question, so that a test can let one fall off the bus.
//   UUID,NAME,BYTES,ok|lost|reset      a gpu
//   +UUID,NAME,BYTES,ok                a MIG slice of the gpu above it, which is in MIG mode then
// The numbers of codes and the order of arguments are those of nvml.h.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotFound = 6, kNoDriver = 9, kLost = 15,
              kReset = 16;

struct Line {
  std::string uuid, name, bytes, health;
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
    const bool is_slice = line.uuid.front() == '+';
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

int nvmlInit_v2() { return std::getenv("FAKE_NVML") == nullptr ? kNoDriver : kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int code) {
  switch (code) {
    case kNoDriver: return "Driver Not Loaded";
    case kLost: return "GPU is lost";
    case kReset: return "GPU requires reset";
    default: return "Unknown Error";
  }
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Lines().size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= Lines().size()) return kInvalidArgument;
  *device = Handle(index, 0);
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* out, unsigned bytes) {
  const auto line = Find(device);
  return line.empty() ? kLost : Text(line[0].uuid, out, bytes);
}
int nvmlDeviceGetName(void* device, char* out, unsigned bytes) {
  const auto line = Find(device);
  return line.empty() ? kLost : Text(line[0].name, out, bytes);
}
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  const auto line = Find(device);
  if (line.empty()) return kLost;
  memory->total = std::strtoull(line[0].bytes.c_str(), nullptr, 10);
  return CodeOf(line[0]);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  const auto line = Find(device);
  if (line.empty()) return kLost;
  *current = *pending = line[0].slices.empty() ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** slice) {
  const auto line = Find(device);
  if (line.empty() || index >= line[0].slices.size()) return kNotFound;
  *slice = Handle((reinterpret_cast<uintptr_t>(device) - 1) / 100, index + 1);
  return kSuccess;
}

}  // extern "C"
