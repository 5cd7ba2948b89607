#include "worker/checkpoint/snapshot.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPieceBytes = 64u << 20;

// By the kernel, which need not bring the bytes to us.
absl::Status CopyRange(int from, int to) {
  for (;;) {
    const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, kPieceBytes, 0);
    if (copied == 0) return absl::OkStatus();
    if (copied < 0 && errno != EINTR) return ErrnoStatus(errno, "copy");
  }
}

// File systems that have nothing to do with each other.
absl::Status CopyBytes(int from, int to) {
  std::string piece(1u << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got == 0) return absl::OkStatus();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read");
    for (ssize_t written = 0; written < got;) {
      const ssize_t count =
          ::write(to, piece.data() + written, static_cast<size_t>(got - written));
      if (count < 0 && errno != EINTR) return ErrnoStatus(errno, "write");
      if (count > 0) written += count;
    }
  }
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (source < 0) return ErrnoStatus(errno, "open " + from);
  struct stat info {};
  const mode_t mode = ::fstat(source, &info) == 0 ? (info.st_mode & 0755) | 0600 : 0600;
  const int target = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  absl::Status copied;
  if (target < 0) {
    copied = ErrnoStatus(errno, "create " + to);
  } else if (::ioctl(target, FICLONE, source) != 0) {
    copied = CopyRange(source, target);
    if (!copied.ok() && ::lseek(target, 0, SEEK_CUR) == 0) copied = CopyBytes(source, target);
  }
  ::close(source);
  if (target >= 0) ::close(target);
  return Annotate(copied, from);
}

absl::Status CopyTree(const std::string& from, const std::string& to) {
  if (::mkdir(to.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + to);
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const std::string target = to + "/" + at->path().filename().string();
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    absl::Status taken;
    if (fs::is_directory(status)) {
      taken = CopyTree(path, target);
    } else if (fs::is_symlink(status)) {
      fs::copy_symlink(path, target, error);
    } else if (fs::is_regular_file(status)) {
      taken = CopyFile(path, target);
    }
    if (!taken.ok()) return taken;
    if (error) break;
  }
  return error ? ErrnoStatus(error.value(), "copy " + from) : absl::OkStatus();
}

}  // namespace

absl::Status TakeSnapshot(const std::string& from, const std::string& to, bool given) {
  struct stat info {};
  if (::stat(from.c_str(), &info) != 0) return ErrnoStatus(errno, "checkpoint " + from);
  if (S_ISDIR(info.st_mode)) {
    // A link is no directory to move: what it leads to may be anybody's.
    struct stat self {};
    const bool movable = given && ::lstat(from.c_str(), &self) == 0 && S_ISDIR(self.st_mode);
    if (movable && std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return CopyTree(from, to);
  }
  if (!S_ISREG(info.st_mode))
    return Invalid("checkpoint " + from + ": neither a directory nor a file");
  if (::mkdir(to.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + to);
  const std::string name = fs::path(from).lexically_normal().filename().string();
  if (given && std::rename(from.c_str(), (to + "/" + name).c_str()) == 0) return absl::OkStatus();
  std::error_code error;
  const std::string real = fs::canonical(from, error).string();
  if (error) return ErrnoStatus(error.value(), "checkpoint " + from);
  return CopyFile(real, to + "/" + name);
}

}  // namespace rt::worker
