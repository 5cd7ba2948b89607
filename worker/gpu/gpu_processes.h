// The processes that hold memory of gpus, as /proc tells of them. The kernel can hold up a reader
// of /proc for as long as the process is stuck in the driver: one thread calls this, and it holds
// no lock meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/gpu_facts.h"

namespace rt::worker {

// The value of RT_TOKEN in an environment as /proc has it; "": it has none.
std::string TokenIn(std::string_view environment);

class GpuProcesses {
 public:
  explicit GpuProcesses(std::string proc) : proc_(std::move(proc)) {}

  struct Known {
    std::string name;
    std::string token;      // Nothing else of its environment is kept.
    bool is_ended = false;  // By us.
  };
  // What is not known of these yet. One without a token is asked again: it may not have begun its
  // program.
  void Read(const std::vector<GpuProcess>& processes);
  // Nothing of one that was never read.
  Known Of(uint64_t pid) const;
  void KeepOnly(const std::set<uint64_t>& pids);
  // Ends it, once, if it has this token now: its pid may be another's since it was read. Returns
  // whether this call ended it.
  bool End(uint64_t pid, const std::string& token);

 private:
  std::string EnvironmentOf(uint64_t pid) const;  // "": it is not to be read.
  std::string NameOf(uint64_t pid) const;

  const std::string proc_;
  std::map<uint64_t, Known> known_;  // By pid.
};

}  // namespace rt::worker
