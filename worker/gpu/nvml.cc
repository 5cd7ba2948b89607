#include "worker/gpu/nvml.h"

#include <dlfcn.h>

#include "common/base/status.h"

namespace rt::worker {
namespace {

// From nvml.h, whose numbers are its ABI.
using Device = void*;
constexpr int kSuccess = 0;
constexpr int kGpuIsLost = 15;
constexpr int kResetRequired = 16;
constexpr unsigned kNameBytes = 96;
struct Memory {
  unsigned long long total, free, used;
};

// A gpu that answers so cannot compute until somebody resets it.
bool IsBroken(int code) { return code == kGpuIsLost || code == kResetRequired; }

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  bool is_initialised = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  // Absent from libraries older than MIG.
  int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(Device, unsigned*) = nullptr;
  int (*mig_device)(Device, unsigned, Device*) = nullptr;

  ~Library() {
    if (is_initialised) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }
  template <class Function>
  bool Find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(handle, symbol));
    return function != nullptr;
  }
  bool FindAll() {
    Find(mig_mode, "nvmlDeviceGetMigMode");
    Find(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
    Find(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex");
    return Find(init, "nvmlInit_v2") && Find(shutdown, "nvmlShutdown") &&
           Find(error_string, "nvmlErrorString") && Find(count, "nvmlDeviceGetCount_v2") &&
           Find(device, "nvmlDeviceGetHandleByIndex_v2") && Find(uuid, "nvmlDeviceGetUUID") &&
           Find(name, "nvmlDeviceGetName") && Find(memory, "nvmlDeviceGetMemoryInfo");
  }
  std::string Why(int code) const { return "NVML: " + std::string(error_string(code)); }

  // Nothing is said of a gpu whose uuid cannot be read: no program could be given it.
  void Describe(Device one, std::vector<FoundGpu>& found) const {
    char text[kNameBytes] = "";
    if (uuid(one, text, sizeof text) != kSuccess) return;
    FoundGpu gpu{.uuid = text};
    if (name(one, text, sizeof text) == kSuccess) gpu.name = text;
    Memory bytes{};
    const int code = memory(one, &bytes);
    if (code == kSuccess) gpu.memory = static_cast<Bytes>(bytes.total);
    if (IsBroken(code)) gpu.fault = Why(code);
    found.push_back(std::move(gpu));
  }
  bool IsSliced(Device one) const {
    unsigned current = 0, pending = 0;
    return mig_mode != nullptr && mig_count != nullptr && mig_device != nullptr &&
           mig_mode(one, &current, &pending) == kSuccess && current == 1;
  }
  void DescribeSlices(Device one, std::vector<FoundGpu>& found) const {
    unsigned slots = 0;
    if (mig_count(one, &slots) != kSuccess) return;
    for (unsigned slot = 0; slot < slots; ++slot) {
      Device slice = nullptr;
      if (mig_device(one, slot, &slice) == kSuccess) Describe(slice, found);
    }
  }
};

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

absl::StatusOr<std::vector<FoundGpu>> Nvml::List() const {
  std::vector<FoundGpu> found;
  unsigned count = 0;
  if (int code = library_->count(&count); code != kSuccess)
    return absl::UnavailableError(library_->Why(code));
  for (unsigned i = 0; i < count; ++i) {
    Device one = nullptr;
    if (library_->device(i, &one) != kSuccess) continue;
    if (library_->IsSliced(one)) {
      library_->DescribeSlices(one, found);
    } else {
      library_->Describe(one, found);
    }
  }
  return found;
}

}  // namespace rt::worker
