#include "common/cas/room.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "common/base/status.h"

namespace rt {
namespace {

std::string MiB(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Bytes RoomKeptFree(Bytes file_system_bytes) {
  return std::min(Bytes{1} << 30, file_system_bytes / 50);
}

absl::Status CheckRoom(const std::string& directory, Bytes bytes) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) return ErrnoStatus(errno, directory);
  const auto block = static_cast<Bytes>(info.f_frsize);
  const Bytes kept = RoomKeptFree(static_cast<Bytes>(info.f_blocks) * block);
  const Bytes free = static_cast<Bytes>(info.f_bavail) * block;
  if (free - bytes >= kept) return absl::OkStatus();
  return WithHint(
      absl::ResourceExhaustedError(ToAbsl(
          "the disk of " + directory + " has " + MiB(free) + " free; " + MiB(bytes) +
          " are to be written, and " + MiB(kept) + " are kept free")),
      "make room there, keep fewer checkpoints (CheckpointConfig num_to_keep), or set "
      "checkpoint_store to a larger disk or a bucket");
}

}  // namespace rt
