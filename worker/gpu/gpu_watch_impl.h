// What the threads of a GpuWatch share. They own it together, so that one that a hung driver holds
// may outlive the watch. Only worker/gpu/gpu_watch*.cc include this.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/gpu/gpu_attempts.h"
#include "worker/gpu/gpu_processes.h"
#include "worker/gpu/gpu_watch.h"
#include "worker/gpu/kernel_log.h"
#include "worker/gpu/quarantine.h"

namespace rt::worker {

class GpuWatch::Impl {
 public:
  Impl(GpuChoice choice, const std::string& state_dir, std::string boot_id,
       const std::string& kernel_log, Millis call_max, std::string proc);

  // `self`: this, as the threads own it.
  absl::Status Open(const std::shared_ptr<Impl>& self);
  void Start(const std::shared_ptr<Impl>& self, GpuWatchEvents events);
  void Stop();

  std::vector<Gpu> gpus() const;
  int64_t units() const;
  std::vector<GpuSample> samples() const;
  void Clear(const std::string& uuid, uint64_t quarantine);
  void NoteFaulty(const std::string& uuid, const std::string& what);
  void Begin(const GpuHolder& holder);
  void End(const Fence& fence);
  void SetFrozen(const Fence& fence, bool frozen);
  bool IsGivenBack(const Fence& fence) const;
  std::vector<GpuProcess> ProcessesOn(const Fence& fence) const;
  GpuUse UseOf(const Fence& fence) const;
  std::string HangOf(const Fence& fence) const;
  std::string FaultOf(const Fence& fence) const;
  bool Condemn(const std::string& uuid, const std::string& what);
  void BlameMachine(const Fence& fence, const std::string& what);
  void Forget(const Fence& fence);

 private:
  void RunSampler();
  void RunEvents();
  void RunMonitor();
  bool OpenNvml();
  void Look();
  // `whole`: also what changes seldom.
  void Sample(bool whole);
  void GiveBack();
  Leftover LookAt(const GpuAttempts::Ending& ending, const std::string& uuid);
  void TakeBack(const GpuAttempts::Ending& ending, Millis now);
  void NameProcesses(std::vector<GpuProcess>& processes) const;  // Read before. Needs mutex_.
  void TakeFault(const std::vector<std::string>& uuids, uint64_t xid);
  void TellFault(bool keeps);  // Since ++taking_.
  void KeepQuarantine();  // In its file.
  void ReadKernelLog();
  void NoteHang();
  bool NoteHung(const Nvml::Asked& asked);  // Returns whether quarantine_ changed. Needs mutex_.
  std::string HangText() const;             // While hangs_. Needs mutex_.
  void KeepUnchecked();  // The gpus of what has ended, until they can be checked. Needs mutex_.
  void Tell();  // The events, where something changed since the last call.
  void RunThread(const std::shared_ptr<Impl>& self, std::thread& thread, void (Impl::*run)());
  bool IsStopping() const;
  std::vector<Gpu> All() const;  // With every fault. Needs mutex_.
  std::vector<Gpu> Chosen(const std::vector<Gpu>& all) const;  // This worker's part.
  std::string WhyDrain() const;                                // Needs mutex_.

  const GpuChoice choice_;
  const std::string file_, quarantine_file_;
  const std::string boot_id_;
  const Millis call_max_;     // A call of the driver that takes longer hangs.
  std::optional<Nvml> nvml_;  // Set once, before any other thread than the first.
  std::optional<KernelLog> kernel_log_;
  GpuProcesses processes_;  // The first thread's.
  std::thread sampler_, events_, monitor_;
  std::atomic<Millis> call_since_{
      0};  // When the first thread began to call the driver; 0: not now.

  // Taken in this order. The first is held until what was read is told.
  std::mutex reading_, telling_, keeping_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  int running_ = 0;      // Threads.
  bool opened_ = false;  // The first look is over, whatever it found.
  bool hangs_ = false;
  std::string hung_;  // The gpu about which the driver has not answered; "": it is not known.
  GpuWatchEvents on_;
  std::vector<Gpu> all_;  // Of the machine, by number, as NVML tells them.
  Quarantine quarantine_;
  std::map<std::string, std::string> kept_;  // Memory that is still in use: by uuid, by whom.
  std::map<std::string, GpuAttempts::Ending> kept_by_;  // After which attempt.
  std::map<std::string, GpuHolders> idle_;              // As each gpu was when no attempt held it.
  GpuAttempts attempts_;
  std::vector<GpuSample> samples_;
  XidFilter filter_;
  int taking_ = 0;  // Faults that are not told yet: no end of an attempt is, either.
  std::vector<std::pair<Fence, std::string>> struck_;        // To be told.
  bool given_back_ = false;                                  // To be told.
  bool has_news_ = false;                                    // The monitor is to tell something.
  std::vector<Gpu> told_gpus_;
  std::string told_drain_;
};

}  // namespace rt::worker
