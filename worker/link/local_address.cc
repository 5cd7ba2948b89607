#include "worker/link/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rt::worker {
namespace {

// A datagram socket that is connected picks its source address from the routing table.
std::string SourceAddress(const addrinfo& target) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST] = "";
  const bool known = ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  if (known) {
    ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST);
  }
  ::close(fd);
  return text;
}

}  // namespace

std::string InterfaceWith(const std::string& address) {
  ifaddrs* all = nullptr;
  if (address.empty() || ::getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* each = all; each != nullptr && name.empty(); each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST] = "";
    const bool known =
        ::getnameinfo(each->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
    if (known && address == text) name = each->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

std::string LocalAddressTowards(const std::string& heads) {
  const std::string head = heads.substr(0, heads.find(','));
  const size_t colon = head.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = head.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), head.c_str() + colon + 1, &hints, &found) != 0) return "";
  std::string address;
  for (const addrinfo* each = found; each != nullptr && address.empty(); each = each->ai_next) {
    address = SourceAddress(*each);
  }
  ::freeaddrinfo(found);
  return address;
}

}  // namespace rt::worker
