#include "worker/launch/port_keeper.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"

namespace rt::worker {
namespace {

// Bound to every address of the family; -1 with errno set when it cannot be.
int BindAny(int family, uint32_t port) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage address{};
  socklen_t size = 0;
  const int off = 0, on = 1;
  if (family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto& six = reinterpret_cast<sockaddr_in6&>(address);
    six = {.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(port))};
    size = sizeof six;
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    size = sizeof four;
  }
  // Shared only after it was bound: until then it must be free of everybody, also of other keepers.
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    const int why = errno;
    ::close(fd);
    errno = why;
    return -1;
  }
  return fd;
}

uint32_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

PortKeeper::~PortKeeper() {
  for (const auto& [fence, kept] : kept_) ::close(kept.fd);
}

absl::StatusOr<uint32_t> PortKeeper::Keep(const Fence& fence, uint32_t port) {
  std::lock_guard lock(mutex_);
  if (auto known = kept_.find(fence); known != kept_.end()) return known->second.port;
  int fd = BindAny(AF_INET6, port);
  if (fd < 0 && errno != EADDRINUSE) fd = BindAny(AF_INET, port);  // A machine without IPv6.
  if (fd < 0 && errno == EADDRINUSE)
    return absl::UnavailableError("port " + std::to_string(port) + " for the ranks is taken");
  if (fd < 0) return ErrnoStatus(errno, "keep a port for the ranks");
  const Kept kept{fd, PortOf(fd)};
  kept_[fence] = kept;
  return kept.port;
}

void PortKeeper::Release(const Fence& fence) {
  std::lock_guard lock(mutex_);
  auto known = kept_.find(fence);
  if (known == kept_.end()) return;
  ::close(known->second.fd);
  kept_.erase(known);
}

}  // namespace rt::worker
