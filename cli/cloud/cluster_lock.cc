#include "cli/cloud/cluster_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

// The process that wrote itself into the lock.
std::string Holder(int fd) {
  char text[32] = {};
  const ssize_t got = ::pread(fd, text, sizeof text - 1, 0);
  const std::string pid(Trim(std::string_view(text, got > 0 ? static_cast<size_t>(got) : 0)));
  return pid.empty() ? "another process" : "process " + EscapeControl(pid);
}

}  // namespace

absl::StatusOr<ClusterLock> ClusterLock::Acquire(const Home& home, const std::string& cluster) {
  // Not in the directory of the cluster, which is removed while the lock is held.
  const std::string directory = home.root() + "/locks", path = directory + "/" + cluster;
  RT_RETURN_IF_ERROR(EnsureDirectory(directory));
  OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return ErrnoStatus(errno, "open " + path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    std::fprintf(stderr, "rt: %s is starting, changing or ending '%s': waiting for it\n",
                 Holder(file.get()).c_str(), cluster.c_str());
    while (::flock(file.get(), LOCK_EX) != 0)
      if (errno != EINTR) return ErrnoStatus(errno, "lock " + path);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  const bool is_noted =
      ::ftruncate(file.get(), 0) == 0 &&
      ::pwrite(file.get(), pid.data(), pid.size(), 0) == static_cast<ssize_t>(pid.size());
  if (!is_noted) return ErrnoStatus(errno, "write " + path);
  return ClusterLock(std::move(file));
}

}  // namespace rt
