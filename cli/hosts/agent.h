// `rt __host DIR`: the far end of an ssh connection (host_session.h), on the host itself. It reads
// one request per line of standard input, and answers each with one line: what was asked for, or
// {"error": {code, message, hint}}. It keeps nothing: what it starts are daemons with state
// directories below DIR/clusters/CLUSTER/NODE, and later agents find them there.
//
//   {"op": "look", "cluster", "node"}      what runs there, and which setup commands have run
//   {"op": "mount", …, "target", "is_file", "files"}      {"missing": [paths]} (file_mount.h)
//   {"op": "files", the same, "bytes": N}  and then N bytes: a gzipped tar of these
//       with "serve": all of them or none, and the head gives the archive to its machines
//   {"op": "setup", …, "commands", "digest"}              {"failed", "log"}, empty when they ran
//   {"op": "head", …, "config", "port", "token", "cluster_id"}      starts or updates the head
//   {"op": "worker", …, "head", "cluster_id", "token", "resources", "labels", "quarantine"}
//   {"op": "stop", …, "at_once"}           ends what runs there, and removes its directories
//   {"op": "purge"}                        removes the programs, unless a cluster is left
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"

namespace rt {

// Until the end of standard input; the exit code.
int RunAgent(const std::string& directory);

class Agent {
 public:
  // `address`: of this host, for the other nodes.
  Agent(std::string directory, std::string address)
      : root_(std::move(directory)), address_(std::move(address)) {}
  // One request, with the bytes that followed it; the error is for whoever asked.
  absl::StatusOr<Json> Answer(const Json& request, const std::string& bytes);

 private:
  struct Place {
    std::string cluster, node;
    std::string directory;  // Of the node's daemons: head/ and worker/ are below it.
    std::string lock;       // Held by an agent that changes something there.
  };
  absl::StatusOr<Place> PlaceOf(const Json& request) const;
  absl::StatusOr<Json> Do(const std::string& op, const Place& place, const Json& request,
                          const std::string& bytes);
  absl::StatusOr<Json> Look(const Place& place) const;
  absl::StatusOr<Json> Mount(const Place& place, const Json& request) const;
  absl::StatusOr<Json> Setup(const Place& place, const Json& request) const;
  absl::StatusOr<Json> StartHead(const Place& place, const Json& request);
  absl::Status StartKeeper(const Place& place, const std::vector<std::string>& head_flags);
  absl::StatusOr<Json> StartWorker(const Place& place, const Json& request);
  absl::StatusOr<Json> Stop(const Place& place, bool at_once) const;
  absl::StatusOr<Json> Purge() const;
  void PrepareToSpawn();

  const std::string root_, address_;
  bool is_prepared_ = false;  // The environment is that of a login shell.
};

}  // namespace rt
