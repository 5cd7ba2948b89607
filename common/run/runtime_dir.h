// /tmp/rt-<uid>-<hash of the state directory>: where a worker's sockets lie, because the path of a
// socket ends at 107 bytes. Ours alone (0700). The worker removes it when it ends with nothing
// left to run; who takes a cluster down removes those of workers that were killed.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rt {

// `state_dir`: absolute, without a slash at its end.
std::string RuntimeDirOf(const std::string& state_dir);
// Makes it. PermissionDenied when somebody else made it, or may enter it.
absl::StatusOr<std::string> MakeRuntimeDir(const std::string& state_dir);

}  // namespace rt
