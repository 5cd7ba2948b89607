// Trees of files on this node's disk: their names, and whether they are still what they were.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt::worker {

// A digest as the name of a directory.
std::string NameOf(std::string manifest);
bool IsLater(const timespec& a, const timespec& b);
// Whether the file is as it was at `since`.
bool IsUnchanged(const std::string& path, Bytes size, const timespec& since);
std::string LinkOf(const std::string& path);  // Its text; "" when it is no link.
absl::StatusOr<std::string> ReadPiece(const std::string& path, Bytes offset, Bytes size);
// Its files and folders outlive a loss of power from here on.
absl::Status SyncTree(const std::string& path);
// What cannot be removed is logged.
void RemoveTrees(const std::vector<std::string>& paths);
// Now, as the file system's clock has it.
timespec FileClock();

}  // namespace rt::worker
