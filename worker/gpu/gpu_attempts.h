// The attempts of this node that hold gpus: what they made of them, which faults fell on them, and
// what is not given back yet. Knows no driver, clock or process; its owner (gpu_watch.h) tells it.
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/spec/gpu_facts.h"
#include "worker/core/gpu_holds.h"
#include "worker/gpu/nvml.h"

namespace rt::worker {

class GpuAttempts {
 public:
  void Begin(const GpuHolder& holder, Millis now);
  void End(const Fence& fence, Millis now);
  // From here on others may have its gpus, until it is not frozen any more.
  void SetFrozen(const Fence& fence, bool frozen, Millis now);
  void Forget(const Fence& fence) { held_.erase(fence); }

  // A sample of each gpu.
  void Add(const std::vector<GpuSample>& samples);
  // The attempts that run on one of these, which are from here on known to have had this fault.
  std::vector<Fence> NoteFault(const std::vector<std::string>& uuids, const std::string& why);

  // The same of one attempt.
  void NoteFaultOf(const Fence& fence, const std::string& why);

  GpuUse UseOf(const Fence& fence, Millis now) const;
  std::string FaultOf(const Fence& fence) const;
  bool HoldsAny(const Fence& fence) const { return held_.contains(fence); }
  // The gpus that are the attempt's alone.
  std::vector<std::string> WholeOf(const Fence& fence) const;
  bool IsGivenBack(const Fence& fence) const;

  // One that has ended and whose gpus are not free yet.
  struct Ending {
    GpuHolder holder;
    Millis since = 0;
  };
  std::vector<Ending> Endings() const;
  void NoteGivenBack(const Fence& fence);

  // Whether an attempt runs on it, or has not given it back.
  bool IsHeld(const std::string& uuid) const;
  // The attempt that has this token; "": none.
  std::string AttemptOf(const std::string& token) const;

 private:
  struct Held {
    GpuHolder holder;
    GpuUse use;  // Without device_ms.
    Millis began_at = 0;
    std::optional<Millis> ended_at;
    std::optional<Millis> frozen_at;
    Millis frozen_for = 0;  // Before that.
    bool given_back = false;
    std::string fault;
  };
  std::map<Fence, Held> held_;
};

// What is wrong with a gpu that an attempt has given back.
struct Leftover {
  Bytes memory = 0;                 // Beyond that of the idle gpu.
  std::vector<GpuProcess> own;      // Of the attempt: to be ended.
  std::vector<GpuProcess> foreign;  // Of nobody that is known here.
  bool is_free() const { return memory == 0 && own.empty() && foreign.empty(); }
};
// `idle`: as the gpu was when nothing of this worker ran there; nullopt: it was never seen so.
// `own`: the pids of the attempt. Only those count of a gpu that others share, or that was never
// seen idle.
Leftover FindLeftover(const GpuHolders& now, const std::optional<GpuHolders>& idle,
                      const std::set<uint64_t>& own, bool is_shared);
// "1.50 GiB of its memory is in use after t1-0.a1.r0 has ended, by pid 7 (python)"
std::string DescribeLeftover(const Fence& fence, const Leftover& left);

}  // namespace rt::worker
