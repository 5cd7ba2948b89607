// RT_HOME and what lives in it: one directory per cluster, and which one is current.
//   RT_HOME/current                            the name of the current cluster
//   RT_HOME/clusters/<name>/up                 marks a local cluster that should be running
//   RT_HOME/clusters/<name>/head, worker-<n>   state directories of the daemons
//   RT_HOME/clusters/<name>/context            an added context (`rt context add`)
//   RT_HOME/clusters/<name>/epoch              the newest head's that has answered
//   RT_HOME/clusters/<name>/kept               why `--stop` left the cluster up
//   RT_HOME/archive/<name>                     a cluster that is down (archive.h)
// Used by one thread; failures are Status with the path.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/identity.h"

namespace rt {

// What is needed to speak to a head.
struct Context {
  std::string name;
  std::string cluster_id;
  std::string address;          // host:port
  std::string local_directory;  // Of the cluster, when its daemons run on this machine.
  Credentials credentials;
  uint64_t seen_epoch = 0;  // Of the newest head that has answered here.
};

class Home {
 public:
  // $RT_HOME, else ~/.rt; made 0700 when absent.
  static absl::StatusOr<Home> Open();
  // Where it is, or would be: nothing is made.
  static std::string Path();
  explicit Home(std::string root) : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  std::string ClusterDirectory(const std::string& name) const;
  std::vector<std::string> ClusterNames() const;
  // A name that may become a directory's.
  static bool IsName(const std::string& name);
  bool IsLocal(const std::string& name) const;  // Has a head of its own here.
  bool IsUp(const std::string& name) const;     // Marked as up, or an added context.
  // `flag`, else RT_CLUSTER, else the current context. Unavailable when there is none, or it is
  // unknown or not up.
  absl::StatusOr<std::string> Choose(const std::string& flag) const;
  // `flag`, else RT_CLUSTER; empty when neither names a cluster.
  std::string Named(const std::string& flag) const;
  std::string Current() const;  // Empty: none.
  absl::Status SetCurrent(const std::string& name) const;
  absl::Status Forget(const std::string& name) const;  // Also when it is current.
  // Reads certificates and address; for a local cluster the address is head/address, live.
  absl::StatusOr<Context> Load(const std::string& name) const;
  // Remembers context.seen_epoch; another one of the same cluster may have noted a later one.
  absl::Status NoteEpoch(const Context& context) const;
  // Knows one more: a copy of the directory `from`, or what a token was redeemed for.
  absl::Status Add(const std::string& name, const std::string& from) const;
  absl::Status Add(const Context& context) const;
  // Whether Add would take a context of that name.
  absl::Status CheckNew(const std::string& name) const;

 private:
  std::string root_;
};

// Reads the context of a state directory of a head: admin/ and the live address.
absl::StatusOr<Context> LoadHeadContext(const std::string& head_directory);
// $RT_RESULTS, else ~/rt_results; absolute.
std::string ResultsRoot();
std::string AbsolutePath(const std::string& path);  // "~" understood; lexically normal.

}  // namespace rt
