#include "worker/launch/launch_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"

namespace rt::worker {

LaunchLock::~LaunchLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool LaunchLock::IsHeld() const {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return true;
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return !free;
}

absl::StatusOr<int> LaunchLock::Hold() {
  std::lock_guard lock(mutex_);
  if (fd_ >= 0) return fd_;
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open " + path_);
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    absl::Status failed = ErrnoStatus(errno, "lock " + path_);
    ::close(fd);
    return failed;
  }
  return fd_ = fd;
}

}  // namespace rt::worker
