#include "head/service/auth.h"

#include <charconv>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {
namespace {

enum Role : unsigned {
  kAdmin = 1, kUser = 2, kViewer = 4, kWorker = 8, kJoin = 16, kHead = 32,
};
constexpr unsigned kReaders = kAdmin | kUser | kViewer;
constexpr unsigned kPeople = kAdmin | kUser;

constexpr char kReadStore[] = "read checkpoints and bundles from the store";

struct Entry {
  unsigned roles;      // Those that may call it.
  const char* action;  // What a refusal names: "may not drain nodes".
};

constexpr std::pair<std::string_view, Entry> kAuthEntries[] = {
    {"BootService/Programs", {kWorker | kJoin, "fetch the programs"}},
    {"BootService/Mount", {kWorker | kJoin, "fetch the files of the cluster"}},
    {"BootService/Setup", {kWorker | kJoin, "read the setup commands"}},
    {"ClusterService/Status", {kReaders, "read the status"}},
    {"ClusterService/ListNodes", {kReaders, "list nodes"}},
    {"ClusterService/ListNodePage", {kReaders, "list nodes"}},
    {"ClusterService/GetNode", {kReaders, "read about nodes"}},
    {"ClusterService/DrainNode", {kAdmin, "drain nodes"}},
    {"ClusterService/UndrainNode", {kAdmin, "end a drain"}},
    {"ClusterService/QuarantineGpu", {kAdmin, "quarantine a gpu"}},
    {"ClusterService/ForgetNode", {kAdmin, "forget a node"}},
    {"ClusterService/CreateToken", {kAdmin, "create tokens"}},
    {"ClusterService/ListTokens", {kAdmin, "list tokens"}},
    {"ClusterService/RevokeToken", {kAdmin, "revoke tokens"}},
    {"ClusterService/Join", {kJoin, "join the cluster"}},
    {"ClusterService/Shutdown", {kAdmin, "take the cluster down"}},
    {"ClusterService/Attend", {kPeople, "keep the cluster up"}},
    {"ExperimentService/Create", {kPeople, "submit experiments"}},
    {"ExperimentService/List", {kReaders, "list experiments"}},
    {"ExperimentService/ListPage", {kReaders, "list experiments"}},
    {"ExperimentService/Get", {kReaders, "read about experiments"}},
    {"ExperimentService/Stop", {kPeople, "stop experiments"}},
    {"ExperimentService/Wait", {kReaders, "watch experiments"}},
    {"ExperimentService/ListTrials", {kReaders, "list trials"}},
    {"ExperimentService/GetTrial", {kReaders, "read about trials"}},
    {"ExperimentService/StopTrial", {kPeople, "stop trials"}},
    {"ExperimentService/Pause", {kPeople, "pause experiments"}},
    {"ExperimentService/Resume", {kPeople, "resume experiments"}},
    {"ExperimentService/Extend", {kPeople, "extend experiments"}},
    {"ExperimentService/PauseTrial", {kPeople, "pause trials"}},
    {"ExperimentService/ResumeTrial", {kPeople, "resume trials"}},
    {"ExperimentService/RetryTrial", {kPeople, "retry trials"}},
    {"ExperimentService/ResizeTrial", {kPeople, "resize trials"}},
    {"ExperimentService/ReadRows", {kReaders, "read reports"}},
    {"ExperimentService/Operate", {kPeople, "run a driver"}},
    {"ExperimentService/ListResults", {kReaders, "list result files"}},
    {"ExperimentService/ReadResult", {kReaders, "read result files"}},
    {"JobService/Submit", {kPeople, "submit jobs"}},
    {"JobService/List", {kReaders, "list jobs"}},
    {"JobService/ListPage", {kReaders, "list jobs"}},
    {"JobService/Get", {kReaders, "read about jobs"}},
    {"JobService/Stop", {kPeople, "stop jobs"}},
    {"JobService/Wait", {kReaders, "watch jobs"}},
    {"JobService/ReadLog", {kReaders, "read logs"}},
    {"WorkerService/Sync", {kWorker, "act as a node"}},
    {"WorkerService/Report", {kWorker, "report for trials"}},
    {"WorkerService/CommitCheckpoint", {kWorker, "commit checkpoints"}},
    {"WorkerService/SendLog", {kWorker, "send logs"}},
    {"WorkerService/DriverCall", {kWorker, "pass on a driver's calls"}},
    {"WorkerService/FindSources", {kWorker, "find bytes on nodes"}},
    {"WorkerService/HoldTrees", {kWorker, "hold files for others"}},
    {"WorkerService/KeepCheckpoint", {kWorker, "keep checkpoints on nodes"}},
    {"WorkerService/FindHolder", {kWorker, "find who holds a checkpoint"}},
    {"WorkerService/CheckMember", {kWorker, "ask about other nodes"}},
    {"WorkerService/FindPeer", {kWorker, "ask about other nodes"}},
    {"WorkerService/KeepOutputs", {kWorker, "keep what trials wrote"}},
    {"BlobService/FindMissing", {kPeople | kWorker, "submit code or store files"}},
    {"BlobService/PushChunks", {kPeople | kWorker, "submit code or store files"}},
    {"BlobService/PullChunks", {kPeople | kWorker, kReadStore}},
    {"BlobService/PutManifest", {kPeople | kWorker, "submit code or store files"}},
    {"BlobService/GetManifest", {kPeople | kWorker, kReadStore}},
    {"ExecutorService/Dial", {kPeople, "reach executors"}},
    {"PeerService/PullChunks", {kWorker, "read from a node"}},  // Served by workers, not here.
    {"PeerService/HoldTree", {kWorker, "give a node bytes to hold"}},
    {"PeerService/Arrive", {kWorker, "arrive at a barrier of ranks"}},
    {"PeerService/Stacks", {kWorker, "read the stacks of ranks"}},
    {"TaskService/Dial", {kWorker, "reach executors"}},
};

const std::map<std::string_view, Entry>& Table() {
  static const std::map<std::string_view, Entry> table(std::begin(kAuthEntries),
                                                       std::end(kAuthEntries));
  return table;
}

unsigned RoleBit(std::string_view role) {
  if (role == "admin") return kAdmin;
  if (role == "user") return kUser;
  if (role == "viewer") return kViewer;
  if (role == "worker") return kWorker;
  if (role == "join") return kJoin;
  if (role == "head") return kHead;
  return 0;
}

// "the role 'viewer' may not stop trials; that needs the role admin or user". Every entry of the
// table has a role.
std::string Refusal(std::string_view method, const std::string& role) {
  auto entry = Table().find(method);
  if (entry == Table().end()) return "there is no call " + std::string(method);
  std::vector<std::string> needed;
  for (const char* other : {"admin", "user", "viewer", "worker", "join", "head"})
    if ((entry->second.roles & RoleBit(other)) != 0) needed.push_back(other);
  const std::string last = needed.back();
  needed.pop_back();
  return "the role '" + role + "' may not " + entry->second.action + "; that needs the role " +
         Join(needed, ", ") + (needed.empty() ? "" : " or ") + last;
}

}  // namespace

bool HasAuthEntry(std::string_view method) { return Table().find(method) != Table().end(); }

std::vector<std::string> AuthMethods() {
  std::vector<std::string> methods;
  for (const auto& [method, entry] : Table()) methods.emplace_back(method);
  return methods;
}

bool IsAllowed(std::string_view method, std::string_view role) {
  auto entry = Table().find(method);
  return entry != Table().end() && (entry->second.roles & RoleBit(role)) != 0;
}

absl::Status Authorize(std::string_view method, const Identity& who, std::string_view cluster_id) {
  if (who.cluster_id != cluster_id)
    return absl::UnauthenticatedError("this certificate belongs to another cluster");
  if (!IsAllowed(method, who.role)) {
    return WithHint(absl::PermissionDeniedError(Refusal(method, who.role)),
                    "ask an admin for a context with another role");
  }
  return absl::OkStatus();
}

Json ShownTo(const Identity& who, Json experiment) {
  if (who.role != "viewer") return experiment;
  Json* spec = experiment.Find("spec");
  Json* env = spec == nullptr ? nullptr : spec->Find("env");
  if (env == nullptr) return experiment;
  if (!env->is_object()) *env = Json();
  else for (auto& [name, value] : env->object()) value = "***";
  return experiment;
}

absl::StatusOr<NodeId> NodeOf(const Identity& who) {
  NodeId node;
  const char* end = who.name.data() + who.name.size();
  auto [stop, error] = std::from_chars(who.name.data(), end, node.value);
  if (who.kind != "node" || error != std::errc() || stop != end || node.value == 0)
    return absl::PermissionDeniedError("this certificate does not name a node");
  return node;
}

}  // namespace rt
