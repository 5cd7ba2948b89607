#include "worker/gpu/probe/meeting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace rt::probe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryEvery = std::chrono::milliseconds(50);
constexpr uint32_t kMark = 0x52545031;  // What is not one of ours is not listened to.
constexpr uint32_t kGatherMark = 0x52545100;
constexpr int kGpusMax = 1'024;         // Of a node; more is no answer of ours.

using Hello = std::array<uint32_t, 4>;    // kMark, node, NodeState, gpus.
using Welcome = std::array<uint32_t, 3>;  // kMark, first rank, ranks; then the states and the id.

int MillisUntil(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

bool Await(int fd, short events, Clock::time_point end) {
  pollfd ready{fd, events, 0};
  int found = -1;
  do found = ::poll(&ready, 1, MillisUntil(end));
  while (found < 0 && errno == EINTR);
  return found > 0;
}

bool SendAll(int fd, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t sent = ::send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, void* bytes, size_t size, Clock::time_point end) {
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    if (!Await(fd, POLLIN, end)) return false;
    const ssize_t got = ::recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// The nodes in this state, by their place in the gang, and `what` of them.
std::string Name(const std::vector<NodeState>& states, NodeState state, const std::string& what) {
  std::string text;
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i] == state)
      text += (text.empty() ? "" : ", ") + ("node " + std::to_string(i) + " of the gang " + what);
  return text;
}

// Why there can be no all-reduce. The gravest reason only: the others may follow from it.
void Judge(const std::string& in_time, Meeting& meeting) {
  const std::vector<NodeState>& states = meeting.states;
  meeting.fault = Name(states, NodeState::kFault, "has a gpu at fault");
  if (meeting.fault.empty()) meeting.fault = Name(states, NodeState::kError, "could not be tested");
  if (meeting.fault.empty())
    meeting.fault = Name(states, NodeState::kAbsent, "did not come to the all-reduce " + in_time);
  if (meeting.fault.empty()) meeting.note = Name(states, NodeState::kWithoutNccl, "has no NCCL");
}

int Listen(int port, int nodes) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  at.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 &&
      ::listen(listener, nodes) == 0)
    return listener;
  const int error = errno;
  ::close(listener);
  errno = error;
  return -1;
}

// Node 0. A connection that says nothing sensible is closed, and does not hold up the others for
// longer than kRetryEvery.
class Host {
 public:
  Host(const NodeOfGang& gang, NodeState own, int gpus)
      : states_(static_cast<size_t>(gang.nodes), NodeState::kAbsent), gpus_(states_.size()),
        peers_(states_.size(), -1) {
    states_[0] = own;
    gpus_[0] = gpus;
  }
  ~Host() {
    for (const int peer : peers_)
      if (peer >= 0) ::close(peer);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void AwaitAll(int listener, Clock::time_point end) {
    while (IsSomebodyAbsent() && Await(listener, POLLIN, end)) {
      const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer >= 0 && !Take(peer, end)) ::close(peer);
    }
  }

  void Answer(const char* id, size_t id_bytes, Meeting& meeting) const {
    meeting.states = states_;
    for (const int gpus : gpus_) meeting.ranks += gpus;
    std::vector<uint32_t> states;
    for (const NodeState state : states_) states.push_back(static_cast<uint32_t>(state));
    int first = gpus_[0];
    for (size_t i = 1; i < peers_.size(); ++i) {
      const Welcome welcome{kMark, static_cast<uint32_t>(first),
                            static_cast<uint32_t>(meeting.ranks)};
      first += gpus_[i];
      if (peers_[i] >= 0 && SendAll(peers_[i], welcome.data(), sizeof welcome) &&
          SendAll(peers_[i], states.data(), states.size() * sizeof states[0]))
        SendAll(peers_[i], id, id_bytes);
    }
  }

 private:
  bool IsSomebodyAbsent() const {
    return std::find(states_.begin(), states_.end(), NodeState::kAbsent) != states_.end();
  }
  bool Take(int peer, Clock::time_point end) {
    Hello hello{};
    const Clock::time_point until = std::min(end, Clock::now() + kRetryEvery);
    if (!ReceiveAll(peer, hello.data(), sizeof hello, until)) return false;
    const auto [mark, node, state, gpus] = hello;
    const bool is_known = state <= static_cast<uint32_t>(NodeState::kWithoutNccl);
    const bool is_ours =
        mark == kMark && node > 0 && node < states_.size() && is_known && gpus <= kGpusMax;
    if (!is_ours) return false;
    if (peers_[node] >= 0) ::close(peers_[node]);  // It has tried again.
    peers_[node] = peer;
    states_[node] = static_cast<NodeState>(state);
    gpus_[node] = static_cast<int>(gpus);
    return true;
  }

  std::vector<NodeState> states_;
  std::vector<int> gpus_;
  std::vector<int> peers_;
};

int Connect(const NodeOfGang& gang, Clock::time_point end) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(gang.address.c_str(), std::to_string(gang.port).c_str(), &hints, &found) != 0)
    return -1;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = 0;
  socklen_t size = sizeof error;
  bool connects = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS;
  connects = connects && Await(fd, POLLOUT, end) &&
             ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  ::freeaddrinfo(found);
  if (connects) return fd;
  ::close(fd);
  return -1;
}

// One try of a node other than 0. False: node 0 does not listen yet, or has ended.
bool Visit(const NodeOfGang& gang, NodeState state, int gpus, char* id, size_t id_bytes,
           Clock::time_point end, Meeting& meeting) {
  const int fd = Connect(gang, end);
  if (fd < 0) return false;
  const Hello hello{kMark, static_cast<uint32_t>(gang.node), static_cast<uint32_t>(state),
                    static_cast<uint32_t>(gpus)};
  Welcome welcome{};
  std::vector<uint32_t> states(static_cast<size_t>(gang.nodes));
  // Node 0 answers at the latest when its own time is over, which may have begun after ours.
  const bool is_met = SendAll(fd, hello.data(), sizeof hello) &&
                      ReceiveAll(fd, welcome.data(), sizeof welcome, end) && welcome[0] == kMark &&
                      ReceiveAll(fd, states.data(), states.size() * sizeof states[0], end) &&
                      ReceiveAll(fd, id, id_bytes, end);
  ::close(fd);
  if (!is_met) return false;
  for (const uint32_t one : states) meeting.states.push_back(static_cast<NodeState>(one));
  meeting.first = static_cast<int>(welcome[1]);
  meeting.ranks = static_cast<int>(welcome[2]);
  return true;
}

using Call = std::array<uint32_t, 3>;  // kGatherMark + turn, node, bytes.

// Node 0's part of Gather. A node that has tried again replaces its first connection.
std::string GatherAtHost(const NodeOfGang& gang, uint32_t mark, const std::string& own,
                         Clock::time_point end) {
  const int listener = Listen(gang.port, gang.nodes);
  if (listener < 0) return "";
  std::string all(own.size() * static_cast<size_t>(gang.nodes), '\0');
  all.replace(0, own.size(), own);
  std::vector<int> peers(static_cast<size_t>(gang.nodes), -1);
  size_t came = 1;
  while (came < peers.size() && Await(listener, POLLIN, end)) {
    const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    Call call{};
    std::string theirs(own.size(), '\0');
    const Clock::time_point until = std::min(end, Clock::now() + kRetryEvery);
    const bool is_ours = peer >= 0 && ReceiveAll(peer, call.data(), sizeof call, until) &&
                         call[0] == mark && call[1] > 0 && call[1] < peers.size() &&
                         call[2] == own.size() &&
                         ReceiveAll(peer, theirs.data(), theirs.size(), until);
    if (!is_ours) {
      if (peer >= 0) ::close(peer);
      continue;
    }
    if (peers[call[1]] >= 0) ::close(peers[call[1]]);
    else ++came;
    peers[call[1]] = peer;
    all.replace(call[1] * own.size(), own.size(), theirs);
  }
  ::close(listener);
  const bool is_whole = came == peers.size();
  for (const int peer : peers) {
    if (peer < 0) continue;
    if (is_whole) SendAll(peer, all.data(), all.size());
    ::close(peer);  // Without an answer: not all came.
  }
  return is_whole ? all : "";
}

// One try of another node.
bool GatherFrom(const NodeOfGang& gang, uint32_t mark, const std::string& own, std::string& all,
                Clock::time_point end) {
  const int fd = Connect(gang, end);
  if (fd < 0) return false;
  const Call call{mark, static_cast<uint32_t>(gang.node), static_cast<uint32_t>(own.size())};
  const bool is_met = SendAll(fd, call.data(), sizeof call) &&
                      SendAll(fd, own.data(), own.size()) &&
                      ReceiveAll(fd, all.data(), all.size(), end);
  ::close(fd);
  return is_met;
}

const char* Text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

}  // namespace

NodeOfGang NodeOfGang::FromEnvironment() {
  NodeOfGang gang;
  gang.nodes = std::max(1, std::atoi(Text("GROUP_WORLD_SIZE", "1")));
  gang.node = std::clamp(std::atoi(Text("GROUP_RANK", "0")), 0, gang.nodes - 1);
  gang.address = Text("MASTER_ADDR", "127.0.0.1");
  gang.port = std::atoi(Text("MASTER_PORT", "29500"));
  return gang;
}

Meeting Meet(const NodeOfGang& gang, NodeState state, int gpus, char* id, size_t id_bytes,
             std::chrono::milliseconds most) {
  Meeting meeting;
  const Clock::time_point end = Clock::now() + most;
  const std::string in_time = "within " + std::to_string((most.count() + 999) / 1'000) + " s";
  if (gang.node == 0) {
    const int listener = Listen(gang.port, gang.nodes);
    if (listener < 0) {
      meeting.fault = "listen at port " + std::to_string(gang.port) +
                      " for the other nodes: " + std::strerror(errno);
      return meeting;
    }
    Host host(gang, state, gpus);
    host.AwaitAll(listener, end);
    ::close(listener);
    host.Answer(id, id_bytes, meeting);
  } else {
    while (!Visit(gang, state, gpus, id, id_bytes, end, meeting) && Clock::now() < end)
      std::this_thread::sleep_for(kRetryEvery);
    if (meeting.states.empty()) {
      meeting.fault = "node 0 of the gang did not come to the all-reduce " + in_time + ", at " +
                      gang.address + ":" + std::to_string(gang.port);
      return meeting;
    }
  }
  Judge(in_time, meeting);
  return meeting;
}

std::string Gather(const NodeOfGang& gang, unsigned turn, const std::string& own,
                   std::chrono::milliseconds most) {
  const Clock::time_point end = Clock::now() + most;
  const uint32_t mark = kGatherMark + turn;
  if (gang.node == 0) return GatherAtHost(gang, mark, own, end);
  std::string all(own.size() * static_cast<size_t>(gang.nodes), '\0');
  while (!GatherFrom(gang, mark, own, all, end)) {
    if (Clock::now() >= end) return "";
    std::this_thread::sleep_for(kRetryEvery);
  }
  return all;
}

}  // namespace rt::probe
