// What a worker should be doing, as a function of the state: sent whole at every Sync. A body (the
// LaunchSpec) travels only for attempts that the worker does not list yet.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/json.h"
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
  AttemptId start_after;      // It starts once that one has ended; no owner: at once.
  friend bool operator==(const DesiredAttempt&, const DesiredAttempt&) = default;
};

// By fence. A worker stops and then forgets what is not in here.
std::vector<DesiredAttempt> DesiredFor(const World& world, NodeId node);

// Everything that a worker needs to start one rank.
struct LaunchSpec {
  Fence fence;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // With the RT_ variables that the head knows.
  std::string bundle;                      // Manifest digest; empty: none.
  std::string cwd;                         // Below the bundle, or an absolute path without one.
  std::vector<InputFile> inputs;
  std::string checkpoint;  // Manifest digest of what to restore; empty: none.
  std::vector<std::string> checkpoint_shards;         // Manifests of the other shards.
  bool checkpoint_on_replicas = false;                // Not in the store yet: nodes have replicas.
  DurableAfter durable_after = DurableAfter::kStore;  // For what it saves.
  std::string params;      // JSON; empty for a job.
  Resources resources;
  bool limit_cpu = false;  // To resources.cpu.
  std::vector<std::string> gpu_uuids;
  uint32_t world_size = 1;
  // Where several ranks meet: MASTER_PORT. 0: not agreed yet. Rank 0's node keeps it, and chooses
  // one when it is not.
  uint32_t port = 0;
  bool keeps_port = false;
  // Counters continue from the checkpoint.
  double iteration_base = 0;
  double time_total_base_s = 0;
  // What the trial's side needs to stop exactly, as JSON: see docs/trial-protocol.md, "hello".
  std::string control;
  std::string name;  // The trial's or the job's, for people.
  std::string report_regex;
  std::vector<std::string> log_patterns;  // Looked for at the end of its log when it fails.
  WatchdogSpec watchdog;
};
// The attempt must be live.
LaunchSpec LaunchSpecFor(const World& world, const Fence& fence);
// The part of it that a trial says, of the attempt's rank that `launch` names.
void FillTrial(const World& world, const Attempt& attempt, LaunchSpec& launch);
// The bodies of `desired` that a worker lacks which lists `listed`. An attempt that stops is not
// started any more and has none.
std::vector<LaunchSpec> BodiesFor(const World& world, const std::vector<DesiredAttempt>& desired,
                                  const std::set<Fence>& listed);

}  // namespace rt
