// What `rt down` leaves of a cluster of this machine: RT_HOME/archive/<name>, its directory as it
// was when its daemons had ended. `rt up` of the same name continues from there. There is one
// archive per name at most, because a cluster that is up again has taken its archive back.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/client/home.h"

namespace rt {

std::string ArchiveDirectory(const Home& home, const std::string& name);
std::vector<std::string> ArchiveNames(const Home& home);

// Moves the directory of a cluster whose daemons have ended into the archive, and returns true. A
// cluster whose head never started is forgotten instead: false. AlreadyExists: the archive has one
// of this name.
absl::StatusOr<bool> ArchiveCluster(const Home& home, const std::string& name);
// Moves an archived cluster back, before it is configured again. False: there is none.
absl::StatusOr<bool> TakeFromArchive(const Home& home, const std::string& name);
// The Unavailable error for an unknown name. It lists the known ones: "demo (up), ss (archived)".
absl::Status UnknownCluster(const Home& home, const std::string& name);
// A place outside the cluster's directory that it wrote to, and that --purge does not delete: the
// checkpoint store or the shipped copy of the journal that cluster.yaml names.
struct PlaceElsewhere {
  std::string what;  // "its checkpoints"
  std::string url;   // A directory, s3://bucket/prefix or postgres://…, without a password.
  std::string how;   // The command that deletes it; empty if no single command does.
};
std::vector<PlaceElsewhere> PlacesElsewhere(const std::string& cluster_directory);
// False: there is none.
absl::StatusOr<bool> DeleteArchive(const Home& home, const std::string& name);

}  // namespace rt
