#include "head/service/auth.h"

#include <charconv>
#include <map>

#include "common/base/status.h"

namespace rt {
namespace {

enum Role : unsigned {
  kAdmin = 1, kUser = 2, kViewer = 4, kWorker = 8, kJoin = 16, kHead = 32,
};
constexpr unsigned kReaders = kAdmin | kUser | kViewer;
constexpr unsigned kPeople = kAdmin | kUser;

const std::map<std::string, unsigned, std::less<>>& Table() {
  static const std::map<std::string, unsigned, std::less<>> table = {
      {"ClusterService/Status", kReaders},
      {"ClusterService/ListNodes", kReaders},
      {"ClusterService/GetNode", kReaders},
      {"ClusterService/DrainNode", kAdmin},
      {"ClusterService/UndrainNode", kAdmin},
      {"ClusterService/CreateToken", kAdmin},
      {"ClusterService/ListTokens", kAdmin},
      {"ClusterService/RevokeToken", kAdmin},
      {"ClusterService/Join", kJoin},
      {"ClusterService/Shutdown", kAdmin},
      {"ExperimentService/Create", kPeople},
      {"ExperimentService/List", kReaders},
      {"ExperimentService/Get", kReaders},
      {"ExperimentService/Stop", kPeople},
      {"ExperimentService/Wait", kReaders},
      {"ExperimentService/ListTrials", kReaders},
      {"ExperimentService/GetTrial", kReaders},
      {"ExperimentService/StopTrial", kPeople},
      {"ExperimentService/Pause", kPeople},
      {"ExperimentService/Resume", kPeople},
      {"ExperimentService/Extend", kPeople},
      {"ExperimentService/PauseTrial", kPeople},
      {"ExperimentService/ResumeTrial", kPeople},
      {"ExperimentService/RetryTrial", kPeople},
      {"ExperimentService/ReadRows", kReaders},
      {"ExperimentService/Operate", kPeople},
      {"ExperimentService/ListResults", kReaders},
      {"ExperimentService/ReadResult", kReaders},
      {"JobService/Submit", kPeople},
      {"JobService/List", kReaders},
      {"JobService/Get", kReaders},
      {"JobService/Stop", kPeople},
      {"JobService/Wait", kReaders},
      {"JobService/ReadLog", kReaders},
      {"WorkerService/Sync", kWorker},
      {"WorkerService/Report", kWorker},
      {"WorkerService/CommitCheckpoint", kWorker},
      {"WorkerService/SendLog", kWorker},
      {"WorkerService/DriverCall", kWorker},
      {"WorkerService/FindSources", kWorker},
      {"WorkerService/HoldTrees", kWorker},
      {"WorkerService/KeepCheckpoint", kWorker},
      {"WorkerService/FindHolder", kWorker},
      {"BlobService/FindMissing", kPeople | kWorker},
      {"BlobService/PushChunks", kPeople | kWorker},
      {"BlobService/PullChunks", kPeople | kWorker},
      {"BlobService/PutManifest", kPeople | kWorker},
      {"BlobService/GetManifest", kPeople | kWorker},
      {"PeerService/PullChunks", kWorker},  // Served by workers, not here.
      {"PeerService/HoldTree", kWorker},
  };
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

}  // namespace

bool HasAuthEntry(std::string_view method) { return Table().find(method) != Table().end(); }

std::vector<std::string> AuthMethods() {
  std::vector<std::string> methods;
  for (const auto& [method, roles] : Table()) methods.push_back(method);
  return methods;
}

bool IsAllowed(std::string_view method, std::string_view role) {
  auto entry = Table().find(method);
  return entry != Table().end() && (entry->second & RoleBit(role)) != 0;
}

absl::Status Authorize(std::string_view method, const Identity& who, std::string_view cluster_id) {
  if (who.cluster_id != cluster_id)
    return absl::UnauthenticatedError("this certificate belongs to another cluster");
  if (!IsAllowed(method, who.role)) {
    return WithHint(absl::PermissionDeniedError("the role '" + who.role + "' may not call " +
                                                std::string(method)),
                    "ask an admin for a context with another role");
  }
  return absl::OkStatus();
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
