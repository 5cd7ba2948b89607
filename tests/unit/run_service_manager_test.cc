#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "common/run/service_manager.h"

using namespace rt;

namespace {

// The other side: an abstract socket, as systemd uses for user services.
class Listener {
 public:
  Listener() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    name_ = "@rt-notify-" + std::to_string(::getpid());
    sockaddr_un own{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(own.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&own), length) == 0);
    const timeval deadline{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  }
  ~Listener() { ::close(fd_); }
  const std::string& name() const { return name_; }
  std::string Next() {
    char text[256];
    const ssize_t size = ::recv(fd_, text, sizeof text, 0);
    return size < 0 ? "nothing came" : std::string(text, static_cast<size_t>(size));
  }

 private:
  int fd_;
  std::string name_;
};

}  // namespace

TEST_CASE("service manager: what is said arrives, and our children cannot say it") {
  Listener listener;
  ::setenv("NOTIFY_SOCKET", listener.name().c_str(), 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  const ServiceManager manager = ServiceManager::FromEnvironment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    CHECK(std::getenv(name) == nullptr);
  CHECK(manager.watchdog() == 30'000);
  manager.Ready("serving at x:1");
  CHECK(listener.Next() == "READY=1\nSTATUS=serving at x:1\n");
  manager.Stopping();
  CHECK(listener.Next() == "STOPPING=1\n");
}

TEST_CASE("service manager: a watchdog that is another process's is not ours") {
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  CHECK(ServiceManager::FromEnvironment().watchdog() == 0);
  ServiceManager().Ready("nobody listens, and nothing happens");
}

TEST_CASE("heartbeat: alive is said when the work answers, not when time passes") {
  Listener listener;
  const ServiceManager manager(listener.name(), 40);
  std::mutex mutex;
  std::vector<std::function<void()>> asked;
  {
    Heartbeat beat(manager, [&](std::function<void()> alive) {
      std::lock_guard lock(mutex);
      if (asked.empty()) manager.Stopping();  // Marks the first question.
      asked.push_back(std::move(alive));
    });
    CHECK(listener.Next() == "STOPPING=1\n");
  }
  REQUIRE(!asked.empty());
  manager.Ready("no Alive came before this");
  CHECK(listener.Next() == "READY=1\nSTATUS=no Alive came before this\n");
  asked.front()();
  CHECK(listener.Next() == "WATCHDOG=1\n");
}
