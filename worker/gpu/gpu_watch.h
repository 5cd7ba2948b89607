// The gpus that this worker offers, now and as they fail. Without NVIDIA's library there is no
// thread, and no gpu but those that --resources names.
//
// Three threads. The first alone calls most of NVML: it lists the gpus every few seconds, samples
// them every second, and looks more often while gpus are being given back. The second waits for the
// driver's events. The third calls no driver: it reads the kernel's log, and notices when a call of
// the first does not return. A driver that hangs holds up the first two and nobody else: all other
// functions answer from what was seen before, and Stop leaves the threads behind. The gpu about
// which the driver does not answer is quarantined, and none takes work until the call returns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "worker/core/gpu_holds.h"
#include "worker/gpu/gpu_list.h"
#include "worker/gpu/nvml.h"

namespace rt::worker {

struct GpuWatchEvents {
  // gpus() or units() would say something else.
  std::function<void()> on_change;
  // A fault fell on a gpu of this attempt that ends its work there.
  std::function<void(const Fence&, const std::string&)> on_fault = {};
  // The node should drain, or need not any more: why; "": it need not.
  std::function<void(const std::string&)> on_drain = {};
  // What waited for IsGivenBack should look again.
  std::function<void()> on_given_back = {};
};

class GpuWatch : public GpuHolds {
 public:
  GpuWatch(GpuChoice choice, std::string state_dir, std::string boot_id,
           std::string kernel_log = "/dev/kmsg", Millis call_max = limits::kGpuCallMax,
           std::string proc = "/proc");
  ~GpuWatch() override;
  // The first look, which is waited for only so long. An error when the gpus that were asked for by
  // hand are not there.
  absl::Status Open();
  // From now on the events are called, on the watch's threads.
  void Start(GpuWatchEvents events);
  void Start(std::function<void()> on_change) { Start(GpuWatchEvents{std::move(on_change)}); }
  void Stop();

  // While the driver hangs before it has listed any: one gpu with a fault, which stands for all.
  std::vector<Gpu> gpus() const;
  int64_t units() const;
  // The newest of each of gpus(); none while the driver hangs.
  std::vector<GpuSample> samples() const;
  // The head says that the quarantine up to this number is over.
  void Clear(const std::string& uuid, uint64_t quarantine);

  // The head says that a probe found this fault: the gpu's quarantine begins, unless it has one.
  void NoteFaulty(const std::string& uuid, const std::string& what);

  void Begin(const GpuHolder& holder) override;
  void End(const Fence& fence) override;
  void SetFrozen(const Fence& fence, bool frozen) override;
  bool IsGivenBack(const Fence& fence) const override;
  std::vector<GpuProcess> ProcessesOn(const Fence& fence) const override;
  GpuUse UseOf(const Fence& fence) const override;
  std::string HangOf(const Fence& fence) const override;
  std::string FaultOf(const Fence& fence) const override;
  bool Condemn(const std::string& uuid, const std::string& what) override;
  void BlameMachine(const Fence& fence, const std::string& what) override;
  void Forget(const Fence& fence) override;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace rt::worker
