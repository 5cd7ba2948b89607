#include "common/run/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/base/time.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

constexpr Bytes kReadAtOnce = 256 << 10;

std::string ParentOf(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status WriteNew(const std::string& path, std::string_view text, const WriteOptions& options) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "create " + path);
  absl::Status status = WriteAll(fd, text, path);
  if (status.ok() && ::fchmod(fd, options.mode) != 0) status = ErrnoStatus(errno, "chmod " + path);
  if (status.ok() && options.sync && ::fsync(fd) != 0) status = ErrnoStatus(errno, "sync " + path);
  if (::close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, "close " + path);
  return status;
}

}  // namespace

absl::Status WriteAll(int fd, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + std::string(what));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, Bytes bytes_max) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  struct stat info {};
  std::string text;
  if (::fstat(fd, &info) == 0 && info.st_size > 0 && info.st_size <= bytes_max) {
    text.reserve(static_cast<size_t>(info.st_size));
    // Else a disk is asked for it piece by piece, each after the one before it was copied.
    if (info.st_size >= kReadAtOnce) ::posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
  }
  absl::Status status;
  char buffer[65'536];
  while (true) {
    ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = ErrnoStatus(errno, "read " + path);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (static_cast<Bytes>(text.size()) <= bytes_max) continue;
    status = absl::OutOfRangeError(
        ToAbsl(path + " is longer than " + std::to_string(bytes_max) + " bytes"));
    break;
  }
  ::close(fd);
  if (!status.ok()) return status;
  return text;
}

absl::Status WriteFileAtomic(const std::string& path, std::string_view text,
                             const WriteOptions& options) {
  static std::atomic<uint64_t> counter{0};
  std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." +
                          std::to_string(counter.fetch_add(1));
  ::unlink(temporary.c_str());  // Left by an earlier process with our pid.
  absl::Status status = WriteNew(temporary, text, options);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    status = ErrnoStatus(errno, "rename to " + path);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return options.sync ? SyncDirectory(ParentOf(path)) : absl::OkStatus();
}

absl::Status EnsureDirectory(const std::string& path, mode_t mode) {
  if (path.empty()) return Invalid("a directory without a name");
  if (::mkdir(path.c_str(), mode) == 0) return absl::OkStatus();
  if (errno == ENOENT && ParentOf(path) != path) {
    RT_RETURN_IF_ERROR(EnsureDirectory(ParentOf(path), mode));
    if (::mkdir(path.c_str(), mode) == 0) return absl::OkStatus();
  }
  if (errno != EEXIST) return ErrnoStatus(errno, "make directory " + path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  return S_ISDIR(info.st_mode) ? absl::OkStatus() : ErrnoStatus(ENOTDIR, path);
}

absl::StatusOr<std::string> MakeTempDirectory(std::string_view start) {
  std::string path = std::string(start) + std::string(6, 'X');  // What mkdtemp fills in.
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "make directory " + path);
  return path;
}

absl::Status SyncDirectory(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  absl::Status status;
  if (::fsync(fd) != 0) status = ErrnoStatus(errno, "sync " + path);
  ::close(fd);
  return status;
}

absl::Status RemoveTree(const std::string& path) {
  constexpr int kTriesMax = 100;
  std::error_code error;
  for (int i = 0; i < kTriesMax; ++i) {
    std::filesystem::remove_all(path, error);
    if (error.value() != ENOENT) break;  // Else somebody else is removing it, too.
    if (!Exists(path)) return absl::OkStatus();
  }
  return error ? ErrnoStatus(error.value(), "remove " + path) : absl::OkStatus();
}

bool Exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

namespace {

constexpr Millis kEndingHolderMax = 10'000;

// "process 12 (rt-head)": of the lock file.
bool IsHolderEnding(const std::string& holder) {
  pid_t pid = 0;
  return std::sscanf(holder.c_str(), "process %d", &pid) == 1 && IsEnding(pid);
}

// The lock of a process that was killed is free once the kernel has closed its files, which takes a
// while when it was large or the machine is busy: the next daemon is not turned away meanwhile.
bool LockSoon(int fd, const std::string& path) {
  const auto began = std::chrono::steady_clock::now();
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const auto waited = std::chrono::steady_clock::now() - began;
    const bool is_ending = IsHolderEnding(ReadFile(path, 4'096).value_or(""));
    const bool is_late = waited > std::chrono::milliseconds(kEndingHolderMax);
    if (error != EWOULDBLOCK || !is_ending || is_late) {
      errno = error;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(const std::string& directory) {
  std::string path = directory + "/LOCK";
  OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return ErrnoStatus(errno, "open " + path);
  if (!LockSoon(file.get(), path)) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "lock " + path);
    auto holder = ReadFile(path, 4'096);
    std::string name(Trim(holder.ok() ? *holder : ""));
    return WithHint(absl::FailedPreconditionError(ToAbsl(
                        directory + " is in use by " + (name.empty() ? "another process" : name))),
                    "stop that process first, or choose another directory");
  }
  auto command = ReadFile("/proc/self/comm", 4'096);
  std::string text = "process " + std::to_string(::getpid()) + " (" +
                     std::string(Trim(command.ok() ? *command : "?")) + ")\n";
  if (::ftruncate(file.get(), 0) != 0) return ErrnoStatus(errno, "truncate " + path);
  RT_RETURN_IF_ERROR(WriteAll(file.get(), text, path));
  return DirectoryLock(std::move(file));
}

}  // namespace rt
