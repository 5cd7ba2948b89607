// A snapshot of a directory of code, stored for jobs and trials, and what is said about it on
// standard error: what was left out, what takes the room of a large one, and how far it is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cas/tree.h"

namespace rt {

// Stores `directory` by its ignore files, without `exclude` (absolute paths). Blocks.
absl::StatusOr<StoredTree> StoreSnapshot(BlobStore& store, const std::string& directory,
                                         std::vector<std::string> exclude);

// Pure parts, for tests.
// "left out wv/: a virtual environment ('!wv/' in .rtignore takes it along)", a line each.
std::vector<std::string> LeftOutLines(const std::map<std::string, std::string>& left_out);
// "snapshot: 423.0 MiB in 9 files; the largest: data/ 400.0 MiB; add it to .rtignore to leave it
// out"; "" for one of a usual size.
std::string LargeSnapshotText(const TreeSize& size);

}  // namespace rt
