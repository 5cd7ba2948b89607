// The cgroups (v2) of attempts that the kernel is to hold to their memory or cpus: <the daemon's
// own group>/rt-<hash of the state directory>/<fence>; cgroup.kill ends all that is in one at once.
// Where there is no cgroup v2 that we may write, or it lacks a controller, MemoryWatch does what
// the kernel would, and nobody limits cpus. Attempts that ask for neither have none: to join one
// makes the kernel wait for every core, some ten milliseconds. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::worker {

struct ResourceLimits {
  Bytes memory = 0;  // 0: none.
  int64_t cpu = 0;   // Cores, in units of 1/kUnit; 0: none.
};

class Cgroups {
 public:
  // Where groups can be made: in the group of this process. "" when there is none.
  static std::string FindParent();
  // Removes what earlier daemons left empty below `parent`.
  Cgroups(const std::string& parent, const std::string& state_dir);
  ~Cgroups();

  bool can_limit_cpu() const { return has_cpu_; }
  // A group that holds what joins it to those of `limits` that the kernel can hold it to here, all
  // of its processes together; "" when there are none.
  std::string Make(const Fence& fence, const ResourceLimits& limits) const;
  // Whether the kernel holds this attempt to its memory.
  bool HoldsMemory(const Fence& fence) const;
  // The limit, if the kernel killed something in the group because of it.
  std::optional<Bytes> RanOutOfMemory(const Fence& fence) const;
  // Kills what is in it, and removes it as soon as it is empty.
  void Remove(const Fence& fence) const;

 private:
  std::string PathOf(const Fence& fence) const;
  std::string parent_;  // "": no groups.
  bool has_memory_ = false;
  bool has_cpu_ = false;
};

}  // namespace rt::worker
