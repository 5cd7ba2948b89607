#include "worker/link/own_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rt::worker {
namespace {
constexpr uint64_t kTailWindow = 1u << 20;
}  // namespace

OwnLog::OwnLog() {
  struct stat info {};
  if (::fstat(STDERR_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return;
  // Opened anew: the descriptor itself may only be written.
  file_ = OwnedFd(::open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC));
}

std::string OwnLog::Read(uint64_t offset, size_t bytes_max) const {
  std::string bytes(bytes_max, '\0');
  ssize_t count = ::pread(file_.get(), bytes.data(), bytes_max, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

uint64_t OwnLog::OffsetOfTail(int64_t lines) const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return 0;
  const auto size = static_cast<uint64_t>(info.st_size);
  const uint64_t from = size > kTailWindow ? size - kTailWindow : 0;
  const std::string text = Read(from, kTailWindow);
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (int64_t left = lines; at > 0; --at)
    if (text[at - 1] == '\n' && --left == 0) break;
  return from + at;
}

}  // namespace rt::worker
