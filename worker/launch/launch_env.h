// The environment of the user's process: ours, the head's, the RT_ variables of the trial protocol.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "worker/launch/launch_body.h"

namespace rt::worker {

struct NodeFacts {
  std::string bin_dir;     // Of rt, rt-worker, rt-shim.
  std::string python_dir;  // Holds the package rt; empty: not found.
  std::string interface = {};  // The network interface towards the head; empty: unknown.
  // The memory of each gpu of this worker, by uuid. Asked at each launch: a driver that hangs when
  // the worker starts may answer later.
  std::function<std::map<std::string, Bytes>()> ask_gpus = {};
};
// CUDA_MPS_PIPE_DIRECTORY or its default, if a control daemon listens there; otherwise "".
std::string FindMps();
// "NAME=value", sorted. `inputs` holds the directories of body.inputs, in their order.
std::vector<std::string> LaunchEnv(const LaunchBody& body, const RunDir& dir,
                                   const std::string& socket, const NodeFacts& node,
                                   const std::vector<std::string>& inputs);

}  // namespace rt::worker
