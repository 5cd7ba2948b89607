// Whether a file system has room for what is about to be written. A store refuses before the disk
// is full, because what else lies there (the journal, what trials write) needs room as well.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/time.h"

namespace rt {

// What writes leave free: 2 % of the file system, at most 1 GiB.
Bytes RoomKeptFree(Bytes file_system_bytes);
// ResourceExhausted, with how much is needed and free, when less than that would be left.
absl::Status CheckRoom(const std::string& directory, Bytes bytes);

}  // namespace rt
