// TCP sockets as the port listener needs them: to bind, to name, to look into without taking
// anything out. No state; any thread.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"

namespace rt {

struct BoundPort {
  std::vector<int> fds;  // Listening, not blocking; one for each address that the host has.
  int port = 0;
};
// At "host:port"; port 0: any free one. 0.0.0.0 and [::] stand for both families, as in gRPC. No
// second process can bind the same port.
absl::StatusOr<BoundPort> BindPort(const std::string& address);

// "ipv4:127.0.0.1:80" or "ipv6:%5B::1%5D:80", as grpc::ServerContext::peer() names it.
std::string PeerName(const sockaddr_storage& peer);
// What limits per address count by: an IPv4 address, or the /64 network of an IPv6 address.
std::string AddressKey(const sockaddr_storage& peer);

// What gRPC would set for a connection that it accepted itself.
void PrepareAccepted(int fd, Millis user_timeout);
// How much may be received before it is read; 0: as the kernel thinks best. Does nothing
// where a bound cannot be taken back (before Linux 5.14).
void BoundBuffer(int fd, Bytes most);

enum class Hello { kIncomplete, kComplete, kNoTls, kClosed };
// Whether the first record of a TLS client has arrived whole, or 2 KiB of it. While it has not, the
// socket is made to become readable only when more of it is there.
Hello LookForHello(int fd);
void ForgetLowWater(int fd);  // Before others read from it.

struct TcpFacts {
  Bytes taken = 0;  // Received, and read by this side.
  Bytes unread = 0;
  Bytes sent = 0;
  Millis silent_for = 0;  // Since the last data came.
  Millis sent_ago = 0;    // Since the last data was sent.
  Millis round_trip = 0;
};
bool ReadTcpFacts(int fd, TcpFacts& facts);

}  // namespace rt
