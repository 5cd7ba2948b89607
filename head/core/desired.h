// What a worker should be doing, as a function of the state: sent whole at every Sync. A body (the
// LaunchSpec) travels only for attempts that the worker does not list yet.
#pragma once

#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/spec/launch_spec.h"
#include "head/core/state.h"

namespace rt {

struct DesiredAttempt {
  Fence fence;
  bool stop = false;  // End it: SIGTERM to the group, SIGKILL after the grace.
  bool suspend = false;  // Let it save, then end it.
  bool evict = false;    // The same, but an attempt that does not save keeps running.
  Millis evict_by = 0;   // The deadline, by the head's clock; 0: none.
  uint64_t decided_seq = 0;   // Up to here its driver has decided about its rows.
  uint64_t complete_seq = 0;  // Of a gang: the newest row with a complete checkpoint.
  uint64_t profile_seq = 0;   // Of rank 0: what was measured up to this line is recorded.
  AttemptId start_after;      // It starts once that one has ended; no owner: at once.
  uint32_t freeze = 0;        // Let it save, then freeze it: the round. 0: it runs.
  friend bool operator==(const DesiredAttempt&, const DesiredAttempt&) = default;
};

// By fence. A worker stops and then forgets what is not in here.
std::vector<DesiredAttempt> DesiredFor(const World& world, NodeId node);

// The attempt must be live.
LaunchSpec LaunchSpecFor(const World& world, const Fence& fence);
// The part of it that a trial says, of the attempt's rank that `launch` names.
void FillTrial(const World& world, const Attempt& attempt, LaunchSpec& launch);
// The bodies of `desired` that a worker lacks which lists `listed`. An attempt that stops is not
// started any more and has none.
std::vector<LaunchSpec> BodiesFor(const World& world, const std::vector<DesiredAttempt>& desired,
                                  const std::set<Fence>& listed);

}  // namespace rt
