// The gpus that this worker offers, now and as they fall ill: looks at them every few seconds on a
// thread of its own. Without NVIDIA's library there is no thread, and no gpu but those that
// --resources names.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/gpu/gpu_list.h"
#include "worker/gpu/nvml.h"

namespace rt::worker {

class GpuWatch {
 public:
  GpuWatch(GpuChoice choice, std::string state_dir, std::string boot_id);
  ~GpuWatch();
  // The first look. An error when the gpus that were asked for by hand are not there.
  absl::Status Open();
  // From now on `on_change` is called on the watch's thread when gpus() would say something else.
  void Start(std::function<void()> on_change);
  void Stop();

  std::vector<Gpu> gpus() const;
  int64_t units() const;

 private:
  void Look();
  void Run();

  const GpuChoice choice_;
  const std::string file_;  // What is remembered of them.
  const std::string boot_id_;
  std::optional<Nvml> nvml_;
  std::function<void()> on_change_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::vector<Gpu> all_;  // Of the machine, by number.
};

}  // namespace rt::worker
