// The configuration of a local cluster, and what has to end when it changes.
#include <signal.h>

#include <map>

#include "cli/client/local_cluster.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/files.h"

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

}  // namespace

absl::Status EndDaemon(const std::string& pid_file) {
  absl::StatusOr<ProcessIdentity> daemon = ReadPidFile(pid_file);
  if (!daemon.ok()) return absl::OkStatus();
  kill(daemon->pid, SIGTERM);
  Millis kill_at = SteadyClock() + kEndMax;
  while (ReadPidFile(pid_file).ok()) {
    Millis over = SteadyClock() - kill_at;
    if (over > 0) kill(daemon->pid, SIGKILL);
    if (over > kKilledMax) return absl::InternalError(ToAbsl(pid_file + ": does not end"));
    SleepFor(10);
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::Configure(const std::string& name,
                                     const std::vector<WorkerShape>& workers,
                                     const Json& stores) const {
  Json list = Json::MakeArray();
  for (const WorkerShape& worker : workers)
    list.Append(Json::MakeObject({{"name", worker.name}, {"resources", worker.resources}}));
  Json config = Json::MakeObject(
      {{"cluster_name", name},
       {"results_root", ResultsRoot()},
       {"provider", Json::MakeObject({{"type", "local"}, {"workers", std::move(list)}})}});
  for (const auto& [key, value] : stores.object())
    if (!value.is_null()) config.Set(key, value);
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
  return absl::OkStatus();
}

}  // namespace rt
