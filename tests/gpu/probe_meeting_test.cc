// How the probes of a gang over nodes meet. Each node is a thread here; the port is one that the
// kernel has just given out.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/gpu/kept_port.h"
#include "worker/gpu/probe/meeting.h"

namespace rt::probe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{20'000}, kShort{300};

struct Node {
  NodeState state = NodeState::kWell;
  int gpus = 8;
  milliseconds most = kLong;
  bool comes = true;
};

struct Met {
  Meeting meeting;
  std::string id;
};

std::vector<Met> MeetAll(const std::vector<Node>& nodes) {
  const KeptPort port;
  std::vector<Met> met(nodes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].comes) continue;
    threads.emplace_back([&, i] {
      NodeOfGang gang;
      gang.node = static_cast<int>(i);
      gang.nodes = static_cast<int>(nodes.size());
      gang.port = port.port();
      char id[128] = "";
      if (i == 0) std::strcpy(id, "the id");
      met[i].meeting = Meet(gang, nodes[i].state, nodes[i].gpus, id, sizeof id, nodes[i].most);
      met[i].id = id;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return met;
}

}  // namespace

TEST_CASE("meeting: all nodes get the id of node 0 and ranks of their own") {
  const std::vector<Met> met = MeetAll({{.gpus = 2}, {.gpus = 3}, {.gpus = 1}});
  int first = 0;
  for (size_t i = 0; i < met.size(); ++i) {
    CHECK(met[i].id == "the id");
    CHECK(met[i].meeting.fault.empty());
    CHECK(met[i].meeting.first == first);
    CHECK(met[i].meeting.ranks == 6);
    first += i == 0 ? 2 : 3;
  }
}

TEST_CASE("meeting: a node with a gpu at fault comes, and nobody waits for it") {
  const std::vector<Met> met = MeetAll({{}, {.state = NodeState::kFault, .gpus = 0}});
  for (const Met& one : met) CHECK(one.meeting.fault == "node 1 of the gang has a gpu at fault");
  CHECK(met[0].meeting.states == std::vector{NodeState::kWell, NodeState::kFault});
  const std::vector<Met> other = MeetAll({{.state = NodeState::kError, .gpus = 0}, {}});
  CHECK(other[1].meeting.fault == "node 0 of the gang could not be tested");
  const std::vector<Met> without = MeetAll({{}, {.state = NodeState::kWithoutNccl, .gpus = 0}});
  CHECK(without[0].meeting.fault.empty());
  CHECK(without[0].meeting.note == "node 1 of the gang has no NCCL");
}

TEST_CASE("meeting: a node that never comes is named after a while, by those that came") {
  const std::vector<Met> met = MeetAll({{.most = kShort}, {}, {.comes = false}});
  for (size_t i : {size_t{0}, size_t{1}})
    CHECK(met[i].meeting.fault ==
          (i == 0 ? "node 2 of the gang did not come to the all-reduce within 1 s"
                  : "node 2 of the gang did not come to the all-reduce within 20 s"));
  const std::vector<Met> headless = MeetAll({{.comes = false}, {.most = kShort}});
  CHECK(headless[1].meeting.fault.starts_with("node 0 of the gang did not come"));
  CHECK(headless[1].meeting.states.empty());
}

TEST_CASE("meeting: strangers and silent connections do not hold it up") {
  const KeptPort port;
  NodeOfGang gang;
  gang.nodes = 2;
  gang.port = port.port();
  char id[8] = "id", other[8] = "";
  Meeting met;
  const auto began = std::chrono::steady_clock::now();
  std::thread host([&] { met = Meet(gang, NodeState::kWell, 1, id, sizeof id, kLong); });
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<uint16_t>(port.port()));
  const auto connect = [&] {
    int fd = -1;
    do {
      if (fd >= 0) ::close(fd);
      fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } while (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0);
    return fd;
  };
  const int silent = connect(), stranger = connect();
  CHECK(::send(stranger, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL) == 16);
  NodeOfGang second = gang;
  second.node = 1;
  const Meeting well = Meet(second, NodeState::kWell, 1, other, sizeof other, kLong);
  host.join();
  CHECK(std::chrono::steady_clock::now() - began < kLong / 2);
  ::close(silent);
  ::close(stranger);
  CHECK(well.fault.empty());
  CHECK(well.first == 1);
  CHECK(std::string(other) == "id");
  CHECK(met.states == std::vector{NodeState::kWell, NodeState::kWell});
}

}  // namespace rt::probe
