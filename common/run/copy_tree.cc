#include "common/run/copy_tree.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/base/status.h"

namespace rt {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPieceBytes = 64u << 20;

// File systems that have nothing to do with each other.
absl::Status CopyBytes(int from, int to, off_t at, off_t end) {
  std::string piece(1u << 20, '\0');
  while (at < end) {
    const size_t most = std::min(piece.size(), static_cast<size_t>(end - at));
    const ssize_t got = ::pread(from, piece.data(), most, at);
    if (got == 0) return absl::OkStatus();  // The file became shorter.
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read");
    for (ssize_t written = 0; written < got;) {
      const ssize_t count = ::pwrite(to, piece.data() + written,
                                     static_cast<size_t>(got - written), at + written);
      if (count < 0 && errno != EINTR) return ErrnoStatus(errno, "write");
      if (count > 0) written += count;
    }
    at += got;
  }
  return absl::OkStatus();
}

// By the kernel, which need not bring the bytes to us.
absl::Status CopyRange(int from, int to, off_t at, off_t end) {
  off_t target = at;
  while (at < end) {
    const size_t most = std::min(kPieceBytes, static_cast<size_t>(end - at));
    const ssize_t copied = ::copy_file_range(from, &at, to, &target, most, 0);
    if (copied == 0) return absl::OkStatus();  // The file became shorter.
    if (copied < 0 && errno != EINTR) return CopyBytes(from, to, at, end);
  }
  return absl::OkStatus();
}

// Only the data: a hole of the file is a hole of the copy, and takes no space. A file system that
// knows no holes says that all is data.
absl::Status CopyData(int from, int to) {
  struct stat info {};
  if (::fstat(from, &info) != 0) return ErrnoStatus(errno, "stat");
  for (off_t at = 0; at < info.st_size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // A hole up to the end.
    if (data < 0) return ErrnoStatus(errno, "seek");
    at = ::lseek(from, data, SEEK_HOLE);
    if (at < 0) return ErrnoStatus(errno, "seek");
    RT_RETURN_IF_ERROR(CopyRange(from, to, data, at));
  }
  struct stat copied {};
  if (::fstat(from, &info) != 0 || ::fstat(to, &copied) != 0) return ErrnoStatus(errno, "stat");
  if (copied.st_size < info.st_size && ::ftruncate(to, info.st_size) != 0)
    return ErrnoStatus(errno, "extend");
  return absl::OkStatus();
}

absl::Status Fill(int to, int from, CopyMode mode) {
  if (::ioctl(to, FICLONE, from) == 0) return absl::OkStatus();
  if (mode == CopyMode::kClone)
    return absl::UnimplementedError("this file system cannot clone files");
  return CopyData(from, to);
}

}  // namespace

absl::Status CopyFile(const std::string& from, const std::string& to, CopyMode mode) {
  const int source = ::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (source < 0) return ErrnoStatus(errno, "open " + from);
  struct stat info {};
  const mode_t access = ::fstat(source, &info) == 0 ? (info.st_mode & 0755) | 0600 : 0600;
  const int target = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, access);
  absl::Status copied =
      target < 0 ? ErrnoStatus(errno, "create " + to) : Annotate(Fill(target, source, mode), from);
  if (copied.ok() && ::fchmod(target, access) != 0)  // Whatever the umask is.
    copied = ErrnoStatus(errno, "chmod " + to);
  ::close(source);
  if (target >= 0) ::close(target);
  return copied;
}

absl::Status CopyTree(const std::string& from, const std::string& to, CopyMode mode) {
  if (::mkdir(to.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + to);
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const std::string target = to + "/" + at->path().filename().string();
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    absl::Status copied;
    if (fs::is_directory(status)) {
      copied = CopyTree(path, target, mode);
    } else if (fs::is_symlink(status)) {
      fs::copy_symlink(path, target, error);
    } else if (fs::is_regular_file(status)) {
      copied = CopyFile(path, target, mode);
    }
    if (!copied.ok()) return copied;
    if (error) break;
  }
  return error ? ErrnoStatus(error.value(), "copy " + from) : absl::OkStatus();
}

}  // namespace rt
