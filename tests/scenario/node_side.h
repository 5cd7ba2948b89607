// A node of a story: what its daemon would say at its next Sync.
#pragma once

#include <map>
#include <string>

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

}  // namespace rt::scenario
