// NVIDIA's management library, opened at run time: rt is built without it and runs without it. Any
// thread; a driver that hangs holds up the caller.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt::worker {

// A gpu, or a slice of one that is in MIG mode: such a gpu itself is not listed.
struct FoundGpu {
  std::string uuid;  // What CUDA_VISIBLE_DEVICES takes: "GPU-…" or "MIG-…".
  std::string name;
  Bytes memory = 0;
  std::string fault;  // Why it can take no work; empty: it is well.
  friend bool operator==(const FoundGpu&, const FoundGpu&) = default;
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

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace rt::worker
