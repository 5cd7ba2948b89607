// The configuration of a local cluster, and what has to end when it changes.
#include <signal.h>

#include <filesystem>
#include <map>

#include "cli/client/local_cluster.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/provider/strays.h"
#include "common/run/clock.h"
#include "common/run/files.h"
#include "common/run/runtime_dir.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

constexpr Millis kEndMax = 10'000;
constexpr Millis kKilledMax = 5'000;
constexpr Bytes kConfigMax = 1 << 20;

// Name -> everything that the daemon is started with.
std::map<std::string, std::string> WorkersOf(const std::string& config) {
  std::map<std::string, std::string> workers;
  absl::StatusOr<Json> json = Json::Parse(config);
  const Json* provider = json.ok() ? json->Find("provider") : nullptr;
  const Json* list = provider == nullptr ? nullptr : provider->Find("workers");
  if (list == nullptr || !list->is_array()) return workers;
  for (const Json& worker : list->array()) workers[worker.GetString("name")] = worker.Dump();
  return workers;
}

// Name -> the shape of its workers, which cannot change while they run.
std::map<std::string, std::string> PoolsOf(const std::string& config) {
  std::map<std::string, std::string> pools;
  absl::StatusOr<Json> json = Json::Parse(config);
  const Json* list = json.ok() ? json->Find("pools") : nullptr;
  if (list == nullptr || !list->is_array()) return pools;
  for (const Json& pool : list->array())
    pools[pool.GetString("name")] = pool.GetString("resources");
  return pools;
}

// The pool of the worker in this directory; empty: it was not started by demand.
std::string PoolOfWorker(const std::string& directory) {
  absl::StatusOr<std::string> text = ReadFile(directory + "/machine", kConfigMax);
  absl::StatusOr<Json> json = text.ok() ? Json::Parse(*text) : text.status();
  return json.ok() ? json->GetString("pool") : "";
}

}  // namespace

absl::Status EndDaemon(const std::string& pid_file) {
  absl::StatusOr<ProcessIdentity> daemon = ReadPidFile(pid_file);
  if (!daemon.ok()) return absl::OkStatus();
  kill(daemon->pid, SIGTERM);
  Millis kill_at = SteadyClock() + kEndMax;
  while (IsAlive(*daemon)) {  // It holds its directory until its last moment.
    Millis over = SteadyClock() - kill_at;
    if (over > 0) kill(daemon->pid, SIGKILL);
    if (over > kKilledMax) return absl::InternalError(ToAbsl(pid_file + ": does not end"));
    SleepFor(10);
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::Configure(const std::string& name,
                                     const std::vector<WorkerShape>& workers,
                                     const Json& more) const {
  Json list = Json::MakeArray();
  for (const WorkerShape& worker : workers)
    list.Append(Json::MakeObject({{"name", worker.name}, {"resources", worker.resources}}));
  Json config = Json::MakeObject(
      {{"cluster_name", name},
       {"results_root", ResultsRoot()},
       {"provider", Json::MakeObject({{"type", "local"}, {"workers", std::move(list)}})}});
  for (const auto& [key, value] : more.object()) {
    if (value.is_null()) config.Erase(key);
    else config.Set(key, value);
  }
  RT_RETURN_IF_ERROR(EnsureDirectory(directory_ + "/head"));
  StartLock lock(directory_ + "/start-lock");
  std::string path = directory_ + "/config.json", text = config.Pretty() + "\n";
  absl::StatusOr<std::string> old = ReadFile(path, kConfigMax);
  if (old.ok() && *old == text) return absl::OkStatus();
  if (old.ok()) RT_RETURN_IF_ERROR(Retire(*old, text));
  return WriteFileAtomic(path, text);
}

absl::Status LocalCluster::Retire(const std::string& old_config,
                                  const std::string& new_config) const {
  // The head first: a living one would start its workers again.
  RT_RETURN_IF_ERROR(EndDaemon(directory_ + "/head/pid"));
  std::map<std::string, std::string> wanted = WorkersOf(new_config);
  for (const auto& [worker, shape] : WorkersOf(old_config)) {
    auto kept = wanted.find(worker);
    if (kept != wanted.end() && kept->second == shape) continue;
    std::string directory = directory_ + "/" + worker;
    RT_RETURN_IF_ERROR(EndDaemon(directory + "/pid"));
    if (kept != wanted.end()) continue;
    KillStrays(directory);
    RT_RETURN_IF_ERROR(RemoveTree(directory));
  }
  return RetirePools(old_config, new_config);
}

// Removes the workers of pools that the new configuration lacks, or gives another shape.
absl::Status LocalCluster::RetirePools(const std::string& old_config,
                                       const std::string& new_config) const {
  const std::map<std::string, std::string> before = PoolsOf(old_config),
                                           after = PoolsOf(new_config);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    const std::string directory = entry.path().string(), pool = PoolOfWorker(directory);
    const auto was = before.find(pool), is = after.find(pool);
    const bool stays = was != before.end() && is != after.end() && was->second == is->second;
    if (pool.empty() || stays) continue;
    RT_RETURN_IF_ERROR(EndDaemon(directory + "/pid"));
    KillStrays(directory);
    if (const auto sockets = FindRuntimeDir(directory)) RemoveTree(*sockets).IgnoreError();
    RT_RETURN_IF_ERROR(RemoveTree(directory));
  }
  return absl::OkStatus();
}

}  // namespace rt
