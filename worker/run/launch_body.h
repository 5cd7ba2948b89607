// What starts one rank, as the head's LaunchSpec said it, plus what this worker added. Kept as
// JSON in the attempt's run directory, so that a restarted daemon serves the trial as before.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/policies.h"
#include "worker/run/cgroup.h"

namespace rt::worker {

struct LaunchInput {
  std::string manifest;
  std::string env;  // Gets the path of the directory that it was pulled to.
};
struct LaunchBody {
  Fence fence;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string bundle;
  std::string cwd;
  std::vector<LaunchInput> inputs;
  std::string checkpoint;
  std::vector<std::string> checkpoint_shards;         // Manifests of the other shards.
  bool checkpoint_on_replicas = false;                // The store may not have it yet.
  DurableAfter durable_after = DurableAfter::kStore;  // For what it saves.
  std::string params;
  std::vector<std::string> gpu_uuids;
  uint32_t world_size = 1;
  uint32_t port = 0;  // MASTER_PORT of several ranks; with keeps_port, 0 lets the launcher choose.
  bool keeps_port = false;
  double iteration_base = 0;
  double time_total_base_s = 0;
  std::string control;
  std::string name;
  std::string report_regex;
  std::vector<std::string> log_patterns;  // Looked for at the end of its log when it fails.
  double watchdog_factor = 0;  // Of its median interval between reports; 0: nobody watches.
  Millis watchdog_min = 0;
  bool watchdog_dump = false;
  ResourceLimits limits;
  // Set by the launcher.
  std::string token;
  Millis started_at = 0;
  std::string cgroup;     // The directory of its own, or "".
  std::string shim_spec;  // What rt-shim reads; not kept.
  bool broken_checkpoint = false;  // It cannot begin: its bytes are not those saved.
};
Json ToJson(const LaunchBody& body);
LaunchBody LaunchBodyFrom(const Fence& fence, const Json& json);

// The names inside <state>/attempts/<fence>, where the log files are as well.
struct RunDir {
  std::string path;
  std::string work() const { return path + "/work"; }
  std::string trial() const { return path + "/trial"; }
  std::string checkpoint() const { return path + "/checkpoint"; }
  std::string config() const { return path + "/config.json"; }
  // Written last: from then on the shim may have been started.
  std::string body() const { return path + "/body.json"; }
  std::string spool() const { return path + "/spool"; }
  std::string shim() const { return path + "/shim"; }  // shim_file.h
  std::string error() const { return path + "/error.json"; }
  std::string saved() const { return path + "/saved"; }  // worker/checkpoint/pusher.h
  std::string reported() const { return saved() + "/reported"; }  // reported_files.h
  std::string paused() const { return path + "/paused"; }
  std::string orphaned() const { return path + "/orphaned"; }
};

}  // namespace rt::worker
