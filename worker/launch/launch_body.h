// What starts one rank: the head's LaunchSpec, plus what this worker added. Kept as JSON in the
// attempt's run directory, so that a restarted daemon serves the trial as before.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/base/json.h"
#include "common/base/time.h"
#include "common/spec/launch_spec.h"
#include "worker/limits/cgroup.h"

namespace rt::worker {

// The fields of LaunchSpec, and what the launcher sets.
struct LaunchBody : LaunchSpec {
  std::string token;
  Millis started_at = 0;
  std::string cgroup;              // The directory of its own, or "".
  std::string shim_spec;           // What rt-shim reads; not kept.
  bool broken_checkpoint = false;  // It cannot begin: its bytes are not those saved.

  ResourceLimits limits() const {
    return {.memory = resources.memory, .cpu = limit_cpu ? resources.cpu : 0};
  }
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
  std::string saved() const { return path + "/saved"; }           // worker/checkpoint/pusher.h
  std::string reported() const { return saved() + "/reported"; }  // reported_files.h
  std::string paused() const { return path + "/paused"; }
  std::string orphaned() const { return path + "/orphaned"; }
  std::string freeze() const { return path + "/freeze"; }  // freezer.h
  // Of rank 0 of several: the newest barrier that all ranks have passed
  // (worker/session/barriers.h).
  std::string barrier() const { return path + "/barrier"; }
};

}  // namespace rt::worker
