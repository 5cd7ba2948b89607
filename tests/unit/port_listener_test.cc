// Real sockets, and a server that only takes them.
#include "common/rpc/port_listener.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <thread>

#include "common/base/check.h"
#include "common/run/clock.h"

using namespace rt;

namespace {

constexpr Millis kSoon = 10'000;

template <typename Condition>
bool Becomes(Condition&& condition) {
  const Millis until = SteadyClock() + kSoon;
  while (!condition()) {
    if (SteadyClock() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

// The first record of a TLS client, as far as the listener looks at it.
std::string ClientHello() { return std::string("\x16\x03\x01\x00\x0a", 5) + std::string(10, 'x'); }

class Client {
 public:
  explicit Client(int port) : Client(port, NewSocket()) {}
  Client(int port, int fd) : fd_(fd) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    RT_CHECK(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  static int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  bool TrySend(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void Send(const std::string& text) { RT_CHECK(TrySend(text)); }
  // As much of it as there is capacity for; false when the connection is over.
  bool SendSome(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ||
           errno == EAGAIN;
  }
  bool IsOpen() const {
    char byte;
    const ssize_t count = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count > 0 || (count < 0 && errno == EAGAIN);
  }
  std::string name() const {  // As the server names it.
    sockaddr_in own{};
    socklen_t size = sizeof own;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size);
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }

 private:
  int fd_;
};

// Reads the hello of what it takes, and closes it at its end.
struct Server {
  explicit Server(PortListenerOptions options) {
    options.address = "127.0.0.1:0";
    auto bound = PortListener::Listen(options);
    REQUIRE(bound.ok());
    listener = std::move(*bound);
    listener->Start([this](int fd) {
      char hello[64];
      // One that was cut off meanwhile has none any more.
      if (::recv(fd, hello, sizeof hello, MSG_DONTWAIT) <= 0) ++without_hello;
      std::lock_guard lock(mutex);
      taken.insert(fd);
      last = fd;
    });
  }
  ~Server() {
    listener->Stop();
    CHECK((cuts_off || without_hello == 0));
    for (int fd : taken) ::close(fd);
  }
  size_t count() {
    std::lock_guard lock(mutex);
    return taken.size();
  }
  void CloseNewest(size_t of) {
    REQUIRE(Becomes([&] { return count() == of; }));
    std::lock_guard lock(mutex);
    ::shutdown(last, SHUT_RDWR);
    ::close(last);
    taken.erase(last);
  }
  int First() {
    REQUIRE(Becomes([&] { return count() > 0; }));
    std::lock_guard lock(mutex);
    return *taken.begin();
  }
  std::unique_ptr<Client> Connect(const std::string& first = "") {
    auto client = std::make_unique<Client>(listener->port());
    if (!first.empty()) client->Send(first);
    return client;
  }
  std::shared_ptr<PeerConnection> Found(const Client& client) {
    std::shared_ptr<PeerConnection> found;
    REQUIRE(Becomes([&] { return (found = listener->Find(client.name())) != nullptr; }));
    return found;
  }

  bool cuts_off = false;  // The test cuts connections off while the server takes them.
  std::atomic<int> without_hello = 0;
  std::mutex mutex;
  std::set<int> taken;
  int last = -1;
  std::unique_ptr<PortListener> listener;
};

}  // namespace

TEST_CASE("port: a connection is handed over when its whole first record has arrived") {
  Server server({});
  auto client = server.Connect();
  const std::string hello = ClientHello();
  for (char byte : hello.substr(0, hello.size() - 1)) client->Send(std::string(1, byte));
  REQUIRE(Becomes([&] { return server.listener->counters().pending == 1; }));
  CHECK(server.count() == 0);
  client->Send(hello.substr(hello.size() - 1));
  CHECK(Becomes([&] { return server.count() == 1; }));
}

TEST_CASE("port: a first record that is larger than what is received ahead is handed over") {
  Server server({});
  auto client = server.Connect(std::string("\x16\x03\x01\x3f\xff", 5));
  const std::string body(16 << 10, 'x');
  CHECK(Becomes([&] { return client->SendSome(body) && server.count() == 1; }));
}

TEST_CASE("port: what is silent, or speaks no TLS, is closed and never handed over") {
  Server server({.handshake_timeout = 100});
  auto silent = server.Connect(), half = server.Connect("\x16\x03"), plain = server.Connect("GET");
  CHECK(Becomes([&] { return !silent->IsOpen() && !half->IsOpen() && !plain->IsOpen(); }));
  CHECK(server.count() == 0);
  const PortCounters counters = server.listener->counters();
  CHECK((counters.accepted == 3 && counters.refused == 1 && counters.timed_out == 2));
}

TEST_CASE("port: a handshake that is not finished in time ends, an admitted connection stays") {
  Server server({.handshake_timeout = 300});
  auto stays = server.Connect(ClientHello());
  server.Found(*stays)->admitted = true;
  auto ends = server.Connect(ClientHello());
  CHECK(Becomes([&] { return !ends->IsOpen(); }));
  CHECK(stays->IsOpen());
  CHECK(Becomes([&] { return server.listener->counters().pending == 0; }));
  CHECK(server.listener->counters().open == 1);
}

TEST_CASE("port: a slow handshake is ended for another one only when all places are taken") {
  Server server({.connections_max = 16, .pending_max = 8, .handshakes_max = 2});
  auto slow = server.Connect(ClientHello());
  server.Found(*slow);
  const Millis until = SteadyClock() + 1'000;
  while (SteadyClock() < until) {
    auto other = server.Connect(ClientHello());
    server.Found(*other)->admitted = true;
    server.CloseNewest(2);
    const std::string name = other->name();
    other.reset();
    REQUIRE(Becomes([&] { return server.listener->Find(name) == nullptr; }));
  }
  CHECK(slow->IsOpen());
  auto second = server.Connect(ClientHello()), third = server.Connect(ClientHello());
  CHECK(Becomes([&] { return !slow->IsOpen(); }));
}

TEST_CASE("port: when too many are pending, the oldest that is silent is closed for a new one") {
  Server server({.connections_max = 16, .pending_max = 8});
  std::vector<std::unique_ptr<Client>> admitted, silent;
  for (int i = 0; i < 4; ++i) {
    admitted.push_back(server.Connect(ClientHello()));
    server.Found(*admitted.back())->admitted = true;
  }
  REQUIRE(Becomes([&] { return server.listener->counters().pending == 0; }));
  for (int i = 0; i < 40; ++i) silent.push_back(server.Connect());
  CHECK(Becomes([&] { return server.listener->counters().accepted == 44; }));
  auto honest = server.Connect(ClientHello());
  server.Found(*honest)->admitted = true;
  for (const auto& one : admitted) CHECK(one->IsOpen());
  CHECK(honest->IsOpen());
  CHECK(!silent.front()->IsOpen());
  CHECK(server.listener->counters().pending <= 8);
}

TEST_CASE("port: a process without descriptors refuses, and accepts again when it has some") {
  Server server({.shortage_said = 2'000});
  auto before = server.Connect(ClientHello());
  server.Found(*before)->admitted = true;
  CHECK(server.listener->fault().empty());
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  std::vector<int> used;
  std::unique_ptr<Client> refused;
  bool is_refused = false;
  std::string fault;
  {  // Without assertions: a sanitizer that looks at one needs descriptors.
    const int next = ::dup(0);
    const rlimit few{static_cast<rlim_t>(next + 8), limit.rlim_max};
    ::close(next);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    auto client = std::make_unique<Client>(server.listener->port());
    const int socket = Client::NewSocket();
    for (int fd; (fd = ::dup(0)) >= 0;) used.push_back(fd);
    refused = std::make_unique<Client>(server.listener->port(), socket);
    is_refused = Becomes([&] { return server.listener->counters().refused > 0; });
    fault = server.listener->fault();
  }
  for (int fd : used) ::close(fd);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(is_refused);
  CHECK(fault.find("no file descriptor was left") != std::string::npos);
  auto after = server.Connect(ClientHello());
  server.Found(*after)->admitted = true;
  CHECK(before->IsOpen());
  CHECK(Becomes([&] { return server.listener->fault().empty(); }));
}

TEST_CASE("port: the end of a connection is noticed, also while the server holds its own") {
  Server server({});
  auto client = server.Connect(ClientHello());
  server.Found(*client)->admitted = true;
  const std::string name = client->name();
  ::shutdown(server.First(), SHUT_RDWR);
  client.reset();
  CHECK(Becomes([&] { return server.listener->Find(name) == nullptr; }));
  CHECK(Becomes([&] { return server.listener->counters().open == 0; }));
}

TEST_CASE("port: bytes of which no call comes end the connection") {
  Server server({});
  auto client = server.Connect(ClientHello());
  auto connection = server.Found(*client);
  connection->admitted = true;
  const int fd = server.First();
  std::string sent(16 << 10, 'x'), got(64 << 10, ' ');
  for (size_t received = 0; received < (512 << 10); ++connection->progress) {
    REQUIRE(client->SendSome(sent));  // Something comes of it each time.
    for (ssize_t count; (count = ::recv(fd, got.data(), got.size(), MSG_DONTWAIT)) > 0;)
      received += static_cast<size_t>(count);
  }
  CHECK(server.listener->counters().cut_off == 0);
  CHECK(Becomes([&] {
    while (::recv(fd, got.data(), got.size(), MSG_DONTWAIT) > 0) {
    }
    return !client->IsOpen() || !client->SendSome(sent);
  }));
  CHECK(server.listener->counters().cut_off == 1);
}

TEST_CASE("port: the server's threads and the listener's work on the same connections") {
  Server server({});
  server.cuts_off = true;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      while (!over) {
        Client client(server.listener->port());
        if (!client.TrySend(ClientHello())) continue;
        std::shared_ptr<PeerConnection> found;
        while (!over && client.IsOpen() &&
               (found = server.listener->Find(client.name())) == nullptr) {
        }
        if (found == nullptr) continue;
        found->admitted = true;
        found->LiftBound();
        ++found->progress;
        if (number == 0) server.listener->CutOff(*found, "for this test");
        server.listener->counters();
      }
    });
  }
  CHECK(Becomes([&] { return server.listener->counters().accepted > 300; }));
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(server.listener->counters().cut_off > 0);
}
