// NVIDIA's management library, opened at run time: rt is built without it and runs without it. Any
// thread; a driver that hangs holds up the caller. List comes first: the other calls speak of the
// gpus that the last one found.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/spec/gpu_facts.h"

namespace rt::worker {

// A gpu, or a slice of one that is in MIG mode: such a gpu itself is not listed.
struct FoundGpu {
  std::string uuid;  // What CUDA_VISIBLE_DEVICES takes: "GPU-…" or "MIG-…".
  std::string name;
  Bytes memory = 0;
  std::string fault;    // Why it can take no work; empty: it is well.
  std::string bus;      // "0000:3b:00": how the kernel's log names it; empty: unknown.
  uint32_t island = 0;  // Those of one number are joined by NVLink, or by one PCIe switch.
  friend bool operator==(const FoundGpu&, const FoundGpu&) = default;
};

// What the driver told of one gpu, or of a gpu whose slices are these.
struct GpuEvent {
  std::vector<std::string> uuids;
  uint64_t xid = 0;  // 0: an uncorrectable error of its memory.
};

// What holds memory of a gpu.
struct GpuHolders {
  Bytes used = 0;
  std::vector<GpuProcess> processes;  // Their names are empty.
};

class Nvml {
 public:
  // NotFound when this machine has no such library; FailedPrecondition when it does not work.
  static absl::StatusOr<Nvml> Open();
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;

  // In the library's order. A gpu that is lost altogether may be missing.
  absl::StatusOr<std::vector<FoundGpu>> List() const;
  // Of all of them, without times and names of processes. What changes seldom (links, errors, the
  // limit of power) is taken from `last` for those that are in it.
  std::vector<GpuSample> Sample(const std::vector<GpuSample>& last) const;
  // nullopt: it is not listed, or the driver does not tell.
  std::optional<GpuHolders> HoldersOf(const std::string& uuid) const;
  // Which gpu List, Sample or HoldersOf asks the driver about now, and since when by the steady
  // clock. An empty uuid: about none, or about one whose uuid is not known yet. Never waits for the
  // driver.
  struct Asked {
    std::string uuid;
    Millis since = 0;
  };
  Asked asked() const;
  // The next event, or nullopt after `wait`. FailedPrecondition: this driver tells no events. One
  // thread.
  absl::StatusOr<std::optional<GpuEvent>> WaitForEvent(Millis wait) const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  static void Describe(const Library& library, void* device, std::vector<FoundGpu>& found);
  static void ListOne(Library& library, unsigned number, const std::string& known,
                      std::vector<FoundGpu>& found);
  static void DescribeSlices(Library& library, void* device, unsigned number,
                             std::vector<FoundGpu>& found);
  static void FindIslands(const Library& library, std::vector<FoundGpu>& found);
  static void SampleErrors(const Library& library, void* device, GpuSample& sample);
  static void SampleLinks(const Library& library, void* device, GpuSample& sample);
  static GpuSample SampleOf(const Library& library, const std::string& uuid, void* device,
                            const GpuSample* last);
  std::unique_ptr<Library> library_;
};

}  // namespace rt::worker
