#include "common/rpc/tcp_socket.h"

// The kernel's own header: the C library's lacks the newer fields of tcp_info.
#include <linux/tcp.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/status.h"

namespace rt {
namespace {

constexpr int kBacklog = 4'096;  // The kernel lowers it to net.core.somaxconn.
constexpr unsigned char kHandshakeRecord = 22;
constexpr size_t kRecordHeader = 5;
constexpr size_t kRecordBytesMax = 16 << 10;
// Of a larger hello, the part that counts as all of it: the kernel receives no more ahead.
constexpr size_t kHelloBytesEnough = 2 << 10;

void SetInt(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

absl::StatusOr<int> BindOne(const sockaddr* address, socklen_t size, bool both_families) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) SetInt(fd, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  if (::bind(fd, address, size) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const absl::Status status = ErrnoStatus(errno, "bind");
  ::close(fd);
  return status;
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

absl::StatusOr<BoundPort> BindEverywhere(uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  absl::StatusOr<int> fd = BindOne(reinterpret_cast<sockaddr*>(&six), sizeof six, true);
  if (!fd.ok()) {  // A kernel without IPv6.
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    fd = BindOne(reinterpret_cast<sockaddr*>(&four), sizeof four, false);
  }
  if (!fd.ok()) return fd.status();
  return BoundPort{{*fd}, PortOf(*fd)};
}

void SetPort(sockaddr& address, int port) {
  const uint16_t number = htons(static_cast<uint16_t>(port));
  if (address.sa_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = number;
  else reinterpret_cast<sockaddr_in&>(address).sin_port = number;
}

// ::ffff:a.b.c.d is an IPv4 peer of a socket for both families.
const unsigned char* MappedIpv4(const sockaddr_in6& peer) {
  return IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr) ? peer.sin6_addr.s6_addr + 12 : nullptr;
}

}  // namespace

absl::StatusOr<BoundPort> BindPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Invalid("'" + address + "' is not host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const std::string service = address.substr(colon + 1);
  if (host == "0.0.0.0" || host == "::")
    return BindEverywhere(static_cast<uint16_t>(std::strtoul(service.c_str(), nullptr, 10)));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &found); error != 0)
    return absl::UnavailableError(ToAbsl(host + ": " + ::gai_strerror(error)));
  BoundPort bound;
  absl::Status failed;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (bound.port != 0) SetPort(*one->ai_addr, bound.port);
    absl::StatusOr<int> fd = BindOne(one->ai_addr, one->ai_addrlen, false);
    if (!fd.ok()) {
      failed = fd.status();
      continue;
    }
    bound.fds.push_back(*fd);
    bound.port = PortOf(*fd);
  }
  ::freeaddrinfo(found);
  if (bound.fds.empty()) return failed;
  return bound;
}

std::string PeerName(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return "ipv4:" + std::string(text) + ":" + std::to_string(ntohs(four.sin_port));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(peer);
  const std::string port = std::to_string(ntohs(six.sin6_port));
  if (const unsigned char* mapped = MappedIpv4(six)) {
    ::inet_ntop(AF_INET, mapped, text, sizeof text);
    return "ipv4:" + std::string(text) + ":" + port;
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  const std::string scope = six.sin6_scope_id == 0 ? "" : "%25" + std::to_string(six.sin6_scope_id);
  return "ipv6:%5B" + std::string(text) + scope + "%5D:" + port;
}

std::string AddressKey(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(peer);
    return {reinterpret_cast<const char*>(&four.sin_addr), sizeof four.sin_addr};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(peer);
  if (const unsigned char* mapped = MappedIpv4(six))
    return {reinterpret_cast<const char*>(mapped), sizeof(in_addr)};
  constexpr size_t kNetworkBytes = 8;
  return {reinterpret_cast<const char*>(six.sin6_addr.s6_addr), kNetworkBytes};
}

void PrepareAccepted(int fd, Millis user_timeout) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (user_timeout > 0) SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout));
}

void BoundBuffer(int fd, Bytes most) {
  int locks = 0;
  socklen_t size = sizeof locks;
  if (::getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, &size) != 0) return;
  // The kernel doubles it, and offers half of that as the window.
  if (most > 0) SetInt(fd, SOL_SOCKET, SO_RCVBUF, static_cast<int>(most));
  else SetInt(fd, SOL_SOCKET, SO_BUF_LOCK, 0);
}

Hello LookForHello(int fd) {
  unsigned char header[kRecordHeader];
  const ssize_t count = ::recv(fd, header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  if (count == 0) return Hello::kClosed;
  if (count < 0) return errno == EAGAIN || errno == EINTR ? Hello::kIncomplete : Hello::kClosed;
  if (header[0] != kHandshakeRecord || (count > 1 && header[1] != 3)) return Hello::kNoTls;
  size_t wanted = kRecordHeader;
  if (static_cast<size_t>(count) == kRecordHeader) {
    wanted += static_cast<size_t>(header[3]) << 8 | header[4];
    if (wanted > kRecordHeader + kRecordBytesMax) return Hello::kNoTls;
    wanted = std::min(wanted, kHelloBytesEnough);
    int there = 0;
    if (::ioctl(fd, FIONREAD, &there) == 0 && static_cast<size_t>(there) >= wanted)
      return Hello::kComplete;
  }
  SetInt(fd, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(wanted));
  return Hello::kIncomplete;
}

void ForgetLowWater(int fd) { SetInt(fd, SOL_SOCKET, SO_RCVLOWAT, 1); }

bool ReadTcpFacts(int fd, TcpFacts& facts) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  int unread = 0;
  ::ioctl(fd, FIONREAD, &unread);
  facts.taken = static_cast<Bytes>(info.tcpi_bytes_received) - unread;
  facts.sent = static_cast<Bytes>(info.tcpi_bytes_acked);
  facts.unread = unread;
  facts.silent_for = info.tcpi_last_data_recv;
  facts.sent_ago = info.tcpi_last_data_sent;
  facts.round_trip = info.tcpi_rtt / 1'000;
  return true;
}

}  // namespace rt
