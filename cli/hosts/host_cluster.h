// A cluster on hosts that are reached with ssh, as its client sees it: the daemons and their state
// are on the hosts, and RT_HOME/clusters/NAME has only the list of the hosts (hosts.json) and the
// context. `up` works on all hosts at once, changes only what differs, and may be repeated from any
// client that reaches them. Blocks; used by one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/home.h"
#include "cli/hosts/file_mount.h"
#include "cli/hosts/host_session.h"
#include "common/yaml/cluster_spec.h"

namespace rt {

class HostCluster {
 public:
  // Whether `up` has been called here for a cluster of this name on hosts.
  static bool IsKnown(const Home& home, const std::string& name);
  static absl::StatusOr<HostCluster> Load(const Home& home, const std::string& name);
  static absl::StatusOr<HostCluster> Make(const Home& home, const ClusterSpec& spec);
  HostCluster(HostCluster&& other) = default;

  // More of the head's configuration.
  void AddHeadConfig(const Json& more);
  // Until then (steady clock), a host that cannot be reached is tried again: it is booting.
  void WaitForHosts(Millis until) { reachable_by_ = until; }
  // Called with the address from which a connection arrived, as that host sees it; not when the
  // host does not say. Before anything else is asked of the host, possibly by several threads.
  void OnConnected(std::function<void(const std::string& client)> call) {
    on_connected_ = std::move(call);
  }

  struct UpReport {
    size_t ready = 0;
    std::vector<std::string> faults;  // Of hosts that take no work: a line each.
  };
  // Returns when every host that can be is READY. The head's host must be one that can be reached.
  absl::StatusOr<UpReport> Up(const ClusterSpec& spec);
  // Starts the head if it is dead, and makes the context if there is none.
  absl::Status EnsureHead();
  // Of a cluster that another client may have started: makes the context if there is a head.
  absl::Status Attach();
  // After an `up` that failed, of a cluster that was not there before.
  absl::Status Undo();
  // Ends and removes everything on all hosts, and what is known of the cluster here. The hosts on
  // which that failed stay in the list, and are named in the error. `purge`: the programs as well.
  absl::Status Remove(bool purge);

 private:
  struct Host {
    HostSpec spec;
    bool is_head = false;
    bool is_retired = false;  // Of an earlier file; its worker is to be removed.
    std::optional<HostSession> session;
    Json looked;
    absl::Status fault;      // It cannot be used.
    std::string quarantine;  // It takes no work; with the end of the log.
  };
  HostCluster(const Home& home, std::string name, HostList list);

  // A cluster in a cloud has one host here, the head's machine. The head creates the other machines
  // and sets them up.
  bool IsInCloud() const { return !list_.cluster_id.empty(); }
  absl::Status OpenPrograms();
  void ForEach(const std::function<absl::Status(Host&)>& act);
  absl::Status Open(Host& host);
  absl::StatusOr<HostSession> Connect(const Host& host);
  absl::Status Prepare(Host& host);
  absl::Status SendMounts(Host& host);
  absl::StatusOr<std::shared_ptr<const std::string>> Pack(const FileMount& mount,
                                                          const std::vector<std::string>& files);
  absl::Status RunSetup(Host& host, bool is_head);
  absl::Status StartHead(Host& host);
  absl::Status Admit(Host& host, const Json& head);  // This client to the head.
  absl::Status StartWorkers();
  absl::Status WaitReady(UpReport& report);
  absl::Status RetireHosts(UpReport& report);
  absl::Status NoteHosts() const;
  Json Request(const char* op, const Host& host) const;

  Home home_;
  std::string name_;
  HostList list_;
  SetupSpec setup_;
  Json head_config_;  // Null: not known.
  std::string head_address_;  // As the other nodes dial it.
  Millis reachable_by_ = 0;
  std::function<void(const std::string&)> on_connected_;
  std::vector<Host> hosts_;
  std::optional<ProgramsArchive> programs_;
  SshPlan plan_;
  std::vector<FileMount> mounts_;
  // Most hosts lack the same files: these are packed once.
  struct Packed {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const std::string>> made;
  };
  std::unique_ptr<Packed> packed_ = std::make_unique<Packed>();
};

}  // namespace rt
