#include "common/rpc/task_stream.h"

#include <poll.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/run/unix_address.h"

namespace rt {

absl::StatusOr<int> ListenOnce(const std::string& path) {
  RT_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 1) == 0)
    return fd;
  const absl::Status failed = ErrnoStatus(errno, "listen at " + path);
  ::close(fd);
  return failed;
}

int AcceptOnce(int listener, const std::function<bool()>& is_over) {
  for (Millis waited = 0; waited < kTaskAcceptMax && !is_over(); waited += kTaskLookMs) {
    pollfd wait{listener, POLLIN, 0};
    if (::poll(&wait, 1, kTaskLookMs) <= 0) continue;
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return fd;
  }
  return -1;
}

bool SendAll(int fd, std::string_view bytes, const std::function<bool()>& is_over) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) || is_over()) return false;
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, 1, kTaskLookMs);
  }
  return true;
}

}  // namespace rt
