// The files that the head writes of an experiment's results, as clients may read them: result.json,
// progress.csv, params.json, error.txt, pbt_policy_*.txt and TensorBoard's event files, and nothing
// else that lies below the same directory. Each directory is opened relative to the one above it
// and never through a link, so that nothing outside can be reached. Blocks; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/run/folder.h"

namespace rt {

struct ResultFile {
  std::string path;  // Below the experiment's results directory.
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  uint64_t serial = 0;  // Of the file itself: another one when it was replaced.
};

// Whether the head writes files of this name.
bool IsResultFile(std::string_view name);

// Those directly in `directory` below `root` ("": in `root` itself), by name. None when the
// directory is absent, or is a link.
absl::StatusOr<std::vector<ResultFile>> ListResultFiles(const Folder& root,
                                                        const std::string& directory);

struct ResultPiece {
  ResultFile file;
  std::string data;  // Empty at the end.
};
// At most `bytes_max` bytes from `offset` on. NotFound for a path that ListResultFiles would not
// list.
absl::StatusOr<ResultPiece> ReadResultFile(const Folder& root, const std::string& path,
                                           uint64_t offset, size_t bytes_max);

}  // namespace rt
