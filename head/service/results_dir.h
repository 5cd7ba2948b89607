// The directory of a new experiment's results, made at the edge because only the file system knows
// which names earlier heads have taken. Making it is taking it: two heads that share a root never
// write into one directory. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Makes <root>/<name>, or <name>-2 and so on when that is there. `root` is used when the spec has
// no results_dir of its own. InvalidArgument when it cannot be made.
absl::StatusOr<std::string> ReserveResultsDir(const ExperimentSpec& spec, const std::string& root);
// Gives it back when the experiment went elsewhere; stays when somebody has used it.
void ReleaseResultsDir(const std::string& path);

}  // namespace rt
