// The environment of the user's process: ours, the head's, the RT_ variables of the trial protocol.
#pragma once

#include <string>
#include <vector>

#include "worker/launch/launch_body.h"

namespace rt::worker {

struct NodeFacts {
  std::string bin_dir;     // Of rt, rt-worker, rt-shim.
  std::string python_dir;  // Holds the package rt; empty: not found.
  bool has_gpus = false;
  std::string interface = {};  // The network interface towards the head; empty: unknown.
};
// RT_PYTHON_DIR, else the source tree's python/, else <prefix>/share/rt/python; "" when none has
// rt.
std::string FindPythonDir(const std::string& bin_dir);

// "NAME=value", sorted. `inputs` holds the directories of body.inputs, in their order.
std::vector<std::string> LaunchEnv(const LaunchBody& body, const RunDir& dir,
                                   const std::string& socket, const NodeFacts& node,
                                   const std::vector<std::string>& inputs);

}  // namespace rt::worker
