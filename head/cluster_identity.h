// The cluster's CA where a head on another machine finds it: beside the shipped journal or in the
// database, sealed with a key that only the heads have. Without it a restored head could neither
// prove to workers and users who it is, nor let anybody join. Used by main before it opens the
// journal.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "head/state_dir.h"

namespace rt {

// Where the sealed identity lies; both block.
struct IdentityVault {
  std::function<absl::StatusOr<std::optional<std::string>>()> read;
  std::function<absl::Status(const std::string&)> write;  // AlreadyExists when there is one.
};

// The CA of the state directory; else that of the vault, which is written to the state directory;
// else a new one. The vault gets it if it has none: the key file is made if it is absent then.
// FailedPrecondition when the two are of different clusters, PermissionDenied when the key does not
// fit. `may_create`: whether a new CA may be made.
absl::StatusOr<ClusterCa> LoadIdentity(const std::string& state_dir, const IdentityVault& vault,
                                       const std::string& key_file, bool may_create);

}  // namespace rt
