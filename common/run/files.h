// Files as daemons use them: whole reads, atomic writes, directories that only we can enter, and
// the lock that keeps a second daemon out. Thread-safe. Errors name the path.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/run/owned_fd.h"

namespace rt {

// The whole file; OutOfRange when it is longer than `bytes_max`.
absl::StatusOr<std::string> ReadFile(const std::string& path, Bytes bytes_max = Bytes{1} << 30);

// All of `bytes`, however many calls that takes. `what` names the descriptor in the error.
absl::Status WriteAll(int fd, std::string_view bytes, std::string_view what = "the output");

struct WriteOptions {
  mode_t mode = 0600;
  bool sync = true;  // Durable when it returns: the file and its name.
};
// Readers see the old content or the new, never a part. Replaces an existing file.
absl::Status WriteFileAtomic(const std::string& path, std::string_view text,
                             const WriteOptions& options = {});

// Makes the directory and its parents (all 0700 unless told otherwise). An existing one is left as
// it is.
absl::Status EnsureDirectory(const std::string& path, mode_t mode = 0700);
// Makes a directory of our own (0700) whose path is `start`, say "/tmp/rt-", and six random
// characters: short enough for the sockets below it. The caller removes it.
absl::StatusOr<std::string> MakeTempDirectory(std::string_view start);
// Makes renames and new names in `path` durable.
absl::Status SyncDirectory(const std::string& path);
// Removes a tree without following links. OK when it is absent.
absl::Status RemoveTree(const std::string& path);
bool Exists(const std::string& path);  // Of the name itself: a dangling link exists.

// An flock on <directory>/LOCK, held until destruction (and released by the kernel when we die).
// The error of a second taker is FailedPrecondition and names the holder. Waits for a holder that
// was killed and whose files the kernel has not closed yet.
class DirectoryLock {
 public:
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory);

 private:
  explicit DirectoryLock(OwnedFd fd) : fd_(std::move(fd)) {}
  OwnedFd fd_;
};

}  // namespace rt
