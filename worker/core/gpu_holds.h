// What the worker's loop needs of the gpus that attempts hold; worker/gpu implements it. Each call
// returns at once, also while the driver hangs. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/spec/gpu_facts.h"

namespace rt::worker {

// One rank that holds gpus.
struct GpuHolder {
  Fence fence;
  std::vector<std::string> uuids;
  int64_t units = 0;        // Of kUnit; below it, a share of one gpu.
  std::string token;        // RT_TOKEN in the environment of its processes.
  bool is_adopted = false;  // A daemon before this one started it.
};

class GpuHolds {
 public:
  virtual ~GpuHolds() = default;
  // Its program is about to start, or a daemon before this one started it.
  virtual void Begin(const GpuHolder& holder) = 0;
  // Its program has ended: what still holds memory there is ended.
  virtual void End(const Fence& fence) = 0;
  // Since End: whether its gpus are free, or are said not to be, or cannot be checked because the
  // driver hangs: then they take no work until they were. True for those that held none.
  virtual bool IsGivenBack(const Fence& fence) const = 0;
  // It is frozen, and has nothing on its gpus until it is not: others may have them.
  virtual void SetFrozen(const Fence& fence, bool frozen) = 0;
  // What held memory of its gpus when they were last sampled. Nothing of a gpu that others share.
  virtual std::vector<GpuProcess> ProcessesOn(const Fence& fence) const = 0;
  // So far; also after its end, until Forget.
  virtual GpuUse UseOf(const Fence& fence) const = 0;
  // Why nothing is known of the gpus that it holds now: the driver hangs. "": it does not, or it
  // holds none.
  virtual std::string HangOf(const Fence& fence) const = 0;
  // A fault of a gpu of its while it ran; "": there was none.
  virtual std::string FaultOf(const Fence& fence) const = 0;
  // A probe has found this wrong with a gpu: it is quarantined, and what holds it has this fault.
  // False: the gpu is not one that the driver's library lists, and can take work again.
  virtual bool Condemn(const std::string& uuid, const std::string& what) = 0;
  // This attempt ends because of a fault of another node of its gang: FaultOf says so from here on.
  virtual void BlameMachine(const Fence& fence, const std::string& what) = 0;
  virtual void Forget(const Fence& fence) = 0;
};

}  // namespace rt::worker
