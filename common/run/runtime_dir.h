// Where a worker's sockets lie: a short directory, because the path of a socket ends at 107 bytes,
// and ours alone (0700). Its name has a random part, so that nobody else can take it first, and is
// kept in STATE_DIR/runtime-dir: programs that run keep the paths of their sockets, also while the
// daemon is restarted. The worker removes the directory when it ends with nothing left to run;
// `rt down` removes those of workers that were killed. adr/0022 says where it is made.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace rt {

// `state_dir`: absolute, without a slash at its end, and ours. The directory that is recorded, or
// the one that release 0.1 derived from the state directory, or a new one, which is recorded before
// it is returned. A directory that another user owns or may enter is skipped.
absl::StatusOr<std::string> MakeRuntimeDir(const std::string& state_dir);
// The one that is there, to be removed with the state directory.
std::optional<std::string> FindRuntimeDir(const std::string& state_dir);

}  // namespace rt
