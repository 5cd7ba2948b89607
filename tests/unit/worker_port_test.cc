// Ports for several ranks to meet at.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "worker/launch/port_keeper.h"

namespace rt::worker {
namespace {

Fence FenceOf(uint32_t trial) { return {{Owner::Of(TrialId{{1}, trial}), 1, 1}, 0}; }

// As a program does: whether it can listen on every address at the port.
bool CanListen(uint32_t port, bool reuses) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = reuses ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  const bool listens =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(fd, 1) == 0;
  ::close(fd);
  return listens;
}

}  // namespace

TEST_CASE("a kept port is free for the program that sets SO_REUSEADDR, and for nobody else") {
  PortKeeper keeper, other;
  const uint32_t port = *keeper.Keep(FenceOf(0), 0);
  REQUIRE(port > 0);
  CHECK(*keeper.Keep(FenceOf(0), 0) == port);
  CHECK(CanListen(port, true));
  CHECK(!CanListen(port, false));
  CHECK(absl::IsUnavailable(other.Keep(FenceOf(1), port).status()));
  keeper.Release(FenceOf(0));
  CHECK(*other.Keep(FenceOf(1), port) == port);
}

TEST_CASE("a keeper never gives out the same port twice") {
  PortKeeper keeper;
  std::set<uint32_t> ports;
  for (uint32_t trial = 0; trial < 200; ++trial)
    CHECK(ports.insert(*keeper.Keep(FenceOf(trial), 0)).second);
}

}  // namespace rt::worker
