// Ends attempts that grow beyond the memory they asked for, where the kernel does not (see
// cgroup.h): looks at the resident memory of their processes a few times a second. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"

namespace rt::worker {

// The processes of this machine at one moment.
class ProcessTable {
 public:
  static ProcessTable Read();
  struct Process {
    pid_t parent = 0;
    pid_t session = 0;
    Bytes resident = 0;
  };
  explicit ProcessTable(std::map<pid_t, Process> processes);
  // `root`, its descendants, and what is in its session: what a program is made of, but for those
  // that gave up both.
  std::set<pid_t> TreeOf(pid_t root) const;
  std::vector<pid_t> pids() const;
  Bytes ResidentOf(const std::set<pid_t>& pids) const;

 private:
  std::map<pid_t, Process> processes_;
  std::map<pid_t, std::vector<pid_t>> children_;
};

// What these processes use, pages that several share counted once among those that share them.
// 0 when it cannot be known.
Bytes ProportionalMemoryOf(const std::set<pid_t>& pids);

// Whether the tree of `root` uses more than `limit`; `used` says how much.
bool IsBeyond(const ProcessTable& table, pid_t root, Bytes limit, Bytes& used);

// "it grew to 600 MiB, beyond the 512 MiB of memory that it asked for"
std::string BeyondMemory(Bytes used, Bytes limit);

}  // namespace rt::worker
