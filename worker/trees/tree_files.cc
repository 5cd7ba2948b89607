#include "worker/trees/tree_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;

std::string NameOf(std::string manifest) {
  std::replace(manifest.begin(), manifest.end(), ':', '-');
  return manifest;
}

void RemoveTrees(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const absl::Status removed = RemoveTree(path);
    if (!removed.ok()) {
      RT_LOG(kWarning) << MessageOf(removed);
    }
  }
}

bool IsLater(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool IsUnchanged(const std::string& path, Bytes size, const timespec& since) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size &&
         !IsLater(info.st_ctim, since);
}

std::string LinkOf(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), text, sizeof text);
  return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
}

absl::StatusOr<std::string> ReadPiece(const std::string& path, Bytes offset, Bytes size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::pread(fd, bytes.data() + filled, bytes.size() - filled,
                                offset + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  ::close(fd);
  if (filled < bytes.size()) return absl::DataLossError("a file of a tree was cut short");
  return bytes;
}

absl::Status SyncTree(const std::string& path) {
  std::error_code error;
  RT_RETURN_IF_ERROR(SyncDirectory(path));
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    const fs::file_status status = at->symlink_status(error);
    if (fs::is_directory(status)) RT_RETURN_IF_ERROR(SyncDirectory(at->path().string()));
    if (!fs::is_regular_file(status)) continue;
    const int fd = ::open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, "open " + at->path().string());
    const int failed = ::fdatasync(fd) == 0 ? 0 : errno;
    ::close(fd);
    if (failed != 0) return ErrnoStatus(failed, "sync " + at->path().string());
  }
  return error ? ErrnoStatus(error.value(), "sync " + path) : absl::OkStatus();
}

timespec FileClock() {
  timespec now{};
  // What changed before has no later time. Kernels before 6.13 stamp files with the time of their
  // last tick: what changes in the rest of it, 4 ms at most, is taken for unchanged.
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

}  // namespace rt::worker
