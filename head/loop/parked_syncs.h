// The Syncs that wait for their node to change, at most one per node, and each node's version: a
// counter that rises whenever what the node should do may have changed. Core thread only.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "head/loop/head_loop.h"

namespace rt {

using SteadyTime = std::chrono::steady_clock::time_point;

struct ParkedSync {
  std::set<Fence> listed;  // What the worker already knows: no bodies for these.
  uint64_t incarnation = 0;
  uint64_t sync_seq = 0;
  uint64_t seen_epoch = 0;  // Of the last reply that it took.
  uint64_t seen_version = 0;
  SteadyTime until;
  HeadLoop::SyncFn done;
};

class ParkedSyncs {
 public:
  // Parks, and hands out the node's older call, which must be answered.
  std::optional<ParkedSync> Park(NodeId node, ParkedSync sync);
  // The node hears by another call what the parked one, if any, would have told it.
  void NoteTold(NodeId node, uint64_t epoch);
  const ParkedSync* Find(NodeId node) const;
  std::optional<ParkedSync> Take(NodeId node);
  // Nodes whose parked Sync has waited long enough.
  std::vector<NodeId> Expired(SteadyTime now) const;
  std::optional<SteadyTime> NextExpiry() const;
  std::vector<ParkedSync> TakeAll();

  void Bump(NodeId node) { versions_[node] = VersionOf(node) + 1; }
  uint64_t VersionOf(NodeId node);
  // Whether the parked Sync of the node saw another epoch or version than the present one.
  bool IsOutdated(NodeId node, uint64_t epoch);

 private:
  std::map<NodeId, ParkedSync> parked_;
  std::set<std::pair<SteadyTime, NodeId>> by_expiry_;
  std::map<NodeId, uint64_t> versions_;
};

// The reply that the state gives to a node's Sync.
SyncReply MakeSyncReply(const Core& core, NodeId node, uint64_t version,
                        const std::set<Fence>& listed);
// Whether the head has heard a newer call of the node than this one.
bool IsOvertaken(const Core& core, NodeId node, const ParkedSync& sync);

}  // namespace rt
