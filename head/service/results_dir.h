// The directory of a new experiment's results, made at the edge because only the file system knows
// which names earlier heads have taken. Making it is taking it: two heads that share a root never
// write into one directory. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/run/result_roots.h"
#include "common/spec/experiment_spec.h"

namespace rt {

// Makes <results_dir>/<name>, or <name>-2 and so on when that is there; not always the first of
// these that is free, if some have been removed. The path is free of links. A spec without
// results_dir gets the head's results_root. InvalidArgument when results_dir is not allowed or
// cannot be made.
absl::StatusOr<std::string> ReserveResultsDir(const ExperimentSpec& spec, const ResultRoots& roots);
// Gives it back when the experiment went elsewhere; stays when it was used meanwhile.
void ReleaseResultsDir(const std::string& path, const ResultRoots& roots);

}  // namespace rt
