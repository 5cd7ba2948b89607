// What a worker needs to start one rank: the head makes it (head/core/desired.h), and it travels
// once (rt.v1.LaunchSpec). Its list of fields is what the wire and the worker's launch file are
// made of (common/wire): a new field is a member here, one in the proto, and its use. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/policies.h"
#include "common/spec/resources.h"

namespace rt {

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
  std::string params;                                 // JSON; empty for a job.
  Resources resources;
  bool limit_cpu = false;  // To resources.cpu.
  std::vector<std::string> gpu_uuids;
  uint32_t world_size = 1;
  // Where several ranks meet: MASTER_PORT. 0: not agreed yet. Rank 0's node keeps it (keeps_port),
  // and chooses one when it is 0.
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
  double watchdog_factor = 0;  // Of its median interval between reports; 0: nobody watches.
  Millis watchdog_min = 0;
  bool watchdog_dump = false;  // SIGQUIT first, whether it said that it handles that or not.
  uint64_t rank0_node = 0;     // Of several ranks: where rank 0 runs.
  // The node of each rank, for the ranks on rank 0's node: whoever may speak for a rank at their
  // barriers. Empty: one rank, another node, or a head of an earlier release.
  std::vector<NodeId> rank_nodes;
  bool takes_profile = false;  // The head wants to know what it measures of its training.
  bool preflight = false;      // Test its gpus before it starts.
  double preflight_min_bus_gbps = 0;  // Of the all-reduce over those of its node; 0: any.
  std::string refusal;  // Why it cannot be started at all; its argv is empty. Empty: it can.

  RT_FIELDS(LaunchSpec, fence, argv, env, bundle, cwd, inputs, checkpoint, checkpoint_shards,
            checkpoint_on_replicas, durable_after, params, resources, limit_cpu, gpu_uuids,
            world_size, port, keeps_port, iteration_base, time_total_base_s, control, name,
            report_regex, log_patterns, watchdog_factor, watchdog_min, watchdog_dump, rank0_node,
            rank_nodes, takes_profile, preflight, preflight_min_bus_gbps, refusal);
  // The names of earlier releases in the proto and in launch files.
  static constexpr FieldAlias kWireNames[] = {{"checkpoint_shards", "checkpoint_parts"},
                                              {"checkpoint_on_replicas", "checkpoint_held"},
                                              {"watchdog_min", "watchdog_min_ms"}};
};

}  // namespace rt
