// A node of a story: what its daemon would say at its next Sync.
#pragma once

#include <cstdlib>
#include <istream>
#include <map>
#include <sstream>
#include <string>

#include "common/spec/gpu_type.h"
#include "head/core/core.h"

namespace rt::scenario {

struct NodeSide {
  NodeId id;
  uint64_t sync_seq = 0;
  bool silent = false;
  Millis notice_until = 0;
  Millis away_for = 0;
  std::string notice;
  NodeInventory inventory;
  std::map<Fence, Observed> observed;
  std::vector<ProfileReport> profiles;  // Of its next Sync.
};

// One of "cpu=4", "gpu=1", "type=H100", "memory=8" (GiB), "machine=3".
inline void TakeFlag(const std::string& flag, uint64_t& machine, Resources& size) {
  const std::string text = flag.substr(flag.find('=') + 1);
  const int64_t value = std::atoll(text.c_str());
  if (flag.starts_with("type=")) AddGpuType(size, text);
  else if (flag.starts_with("machine=")) machine = static_cast<uint64_t>(value);
  else if (flag.starts_with("memory=")) size.memory = value << 30;
  else (flag.starts_with("cpu=") ? size.cpu : size.gpu) = value * kUnit;
}

// "I J GBPS": the preflight of a gang found the link between these two of its nodes to be slow.
inline void TakeSlowLink(const std::string& text, Observed& observed) {
  std::istringstream words(text);
  ObservedLink link;
  words >> link.node >> link.other >> link.bus_gbps;
  observed.slow_links = {link};
  observed.gpu_fault = "preflight: the all-reduce is too slow";
}

// "PID", "PID frozen ROUND" or "PID refused ROUND WHY": a program that runs, or would.
// "PID measured GBPS": its preflight measured that between the nodes of its gang.
inline void TakeRunning(std::istream& words, Observed& observed) {
  std::string how;
  words >> observed.pid;
  if (!(words >> how)) {
    observed.frozen = 0;
  } else if (how == "frozen") {
    words >> observed.frozen;
  } else if (how == "measured") {
    words >> observed.bus_gbps;
  } else {
    words >> observed.freeze_refused;
    std::getline(words >> std::ws, observed.freeze_why);
  }
}

}  // namespace rt::scenario
