// The cgroups (v2) of attempts that ask for memory: <our own group>/rt-<hash of the state
// directory>/<fence>. The kernel holds their programs to the memory, and cgroup.kill ends all of
// them at once. Where there is no cgroup v2 that we may write, or it has no memory controller,
// MemoryWatch does what the kernel would. Attempts that ask for no memory have none: to join one
// makes the kernel wait for every core, some ten milliseconds. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::worker {

class Cgroups {
 public:
  // Finds where groups can be made, and removes those that earlier daemons left empty.
  explicit Cgroups(const std::string& state_dir);
  ~Cgroups();

  // A group that holds what joins it to `memory` bytes, all of its processes together; "" when the
  // kernel cannot do so here.
  std::string Make(const Fence& fence, Bytes memory) const;
  // Whether the kernel holds this attempt to its memory.
  bool Holds(const Fence& fence) const;
  // The limit, if the kernel killed something in the group because of it.
  std::optional<Bytes> RanOutOfMemory(const Fence& fence) const;
  // Kills what is in it, and removes it as soon as it is empty.
  void Remove(const Fence& fence) const;

 private:
  std::string PathOf(const Fence& fence) const;
  std::string parent_;  // "": no groups.
  bool has_memory_ = false;
};

}  // namespace rt::worker
