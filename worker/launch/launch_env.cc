#include "worker/launch/launch_env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/strings.h"
#include "common/run/open_files.h"
#include "worker/launch/node_rules.h"

namespace rt::worker {
namespace {

// Ours alone: what tunes gRPC in this daemon, and what another attempt's process left to us.
bool IsPrivate(std::string_view name) {
  return name.starts_with("GRPC_") || name == "RT_TOKEN" || name == "RT_SOCKET" ||
         name == "RT_TRIAL_ID" || name == "RT_JOB_ID" || name == "RT_EXECUTOR_ID" ||
         name == "RT_CHECKPOINT_DIR" || name == "RT_EXPERIMENT_ID" || name == "RT_CONFIG" ||
         name == "RT_BUNDLE" || name == "RT_FAILPOINTS" || name == kFoundOpenFiles;
}

// A share of a gpu by MPS: that part of its multiprocessors, and of its memory.
void ShareByMps(const LaunchBody& body, const std::map<std::string, Bytes>& gpus,
                std::map<std::string, std::string>& env) {
  const int64_t units = body.resources.gpu;
  if (units <= 0 || units >= kUnit || body.gpu_uuids.size() != 1) return;
  const std::string mps_dir = FindMps();
  if (mps_dir.empty()) return;
  env["CUDA_MPS_PIPE_DIRECTORY"] = mps_dir;
  env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] =
      std::to_string(std::max<int64_t>(1, units * 100 / kUnit));
  const auto memory = gpus.find(body.gpu_uuids.front());
  if (memory == gpus.end() || memory->second == 0) return;
  const int64_t mebibytes = (memory->second >> 20) * units / kUnit;
  env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = "0=" + std::to_string(mebibytes) + "M";
}

}  // namespace

std::string FindMps() {
  const char* named = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string dir = named == nullptr ? "/tmp/nvidia-mps" : named;
  return ::access((dir + "/control").c_str(), F_OK) == 0 ? dir : "";
}

std::vector<std::string> LaunchEnv(const LaunchBody& body, const RunDir& dir,
                                   const std::string& socket, const NodeFacts& node,
                                   const std::vector<std::string>& inputs) {
  std::map<std::string, std::string> env;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry = *at;
    size_t equals = entry.find('=');
    if (equals == std::string_view::npos || IsPrivate(entry.substr(0, equals))) continue;
    env[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  const auto gpus = node.ask_gpus ? node.ask_gpus() : std::map<std::string, Bytes>{};
  const Owner& owner = body.fence.attempt.owner;
  const NodeRules& rules = RulesOf(owner);
  if (!body.gpu_uuids.empty() || (!rules.sees_gpus_of_others && !gpus.empty()))
    env["CUDA_VISIBLE_DEVICES"] = Join(body.gpu_uuids, ",");
  ShareByMps(body, gpus, env);
  for (const auto& [name, value] : body.env) env[name] = value;
  // Gloo takes the interface that the host's name resolves to, which often is the loopback one.
  const auto nodes = body.env.find("GROUP_WORLD_SIZE");
  if (nodes != body.env.end() && nodes->second != "1" && !node.interface.empty())
    env.try_emplace("GLOO_SOCKET_IFNAME", node.interface);
  if (body.port != 0) env["MASTER_PORT"] = std::to_string(body.port);
  rules.name(owner, env);
  env["RT_ATTEMPT"] = std::to_string(body.fence.attempt.number);
  env["RT_GENERATION"] = std::to_string(body.fence.attempt.generation);
  env["RT_CONFIG"] = dir.config();
  env["RT_SOCKET"] = socket;
  env["RT_TOKEN"] = body.token;
  env["RT_TRIAL_DIR"] = dir.trial();
  env["RT_ASSIGNED"] = ToJson(body.resources).Dump();
  env["RT_BIN"] = node.bin_dir;
  // Last, so that `rt report` is found where nothing else is called so.
  std::string& programs = env["PATH"];
  programs = (programs.empty() ? "/usr/local/bin:/usr/bin:/bin" : programs) + ":" + node.bin_dir;
  if (!body.bundle.empty()) env["RT_BUNDLE"] = body.bundle;  // A driver's experiments inherit it.
  if (!body.checkpoint.empty()) env["RT_CHECKPOINT_DIR"] = dir.checkpoint();
  for (size_t i = 0; i < inputs.size(); ++i) env[body.inputs[i].env] = inputs[i];
  if (!node.python_dir.empty()) {
    std::string& path = env["PYTHONPATH"];
    path = path.empty() ? node.python_dir : node.python_dir + ":" + path;
  }
  std::vector<std::string> list;
  for (const auto& [name, value] : env) list.push_back(name + "=" + value);
  return list;
}

}  // namespace rt::worker
