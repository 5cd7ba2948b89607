#include "worker/limits/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"

namespace rt::worker {

absl::StatusOr<int> MemoryFile(std::string_view text) {
  int fd = ::memfd_create("rt-shim-spec", MFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "memfd_create");
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      absl::Status failed = ErrnoStatus(errno, "write the launch spec");
      ::close(fd);
      return failed;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace rt::worker
