#include "common/run/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "common/base/log.h"

namespace rt {
namespace {

constexpr Millis kBeatsPerWatchdog = 4;

std::string Take(const char* name) {
  const char* value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

int64_t ToNumber(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  std::string address = Take("NOTIFY_SOCKET");
  const int64_t micros = ToNumber(Take("WATCHDOG_USEC"));
  const std::string pid = Take("WATCHDOG_PID");
  const bool for_us = pid.empty() || ToNumber(pid) == ::getpid();
  return ServiceManager(std::move(address), for_us && micros > 0 ? micros / 1'000 : 0);
}

void ServiceManager::Ready(std::string_view status) const {
  Say("READY=1\nSTATUS=" + std::string(status) + "\n");
}

void ServiceManager::Stopping() const { Say("STOPPING=1\n"); }

void ServiceManager::Alive() const { Say("WATCHDOG=1\n"); }

std::vector<std::string> ServiceManager::Environment() const {
  std::vector<std::string> taken;
  if (!address_.empty()) taken.push_back("NOTIFY_SOCKET=" + address_);
  if (watchdog_ > 0) taken.push_back("WATCHDOG_USEC=" + std::to_string(watchdog_ * 1'000));
  return taken;
}

void ServiceManager::Say(const std::string& text) const {
  sockaddr_un to{.sun_family = AF_UNIX, .sun_path = {}};
  if (address_.empty() || address_.size() >= sizeof to.sun_path) return;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (address_.front() == '@') to.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const ssize_t sent = fd < 0 ? -1
                              : ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL,
                                         reinterpret_cast<sockaddr*>(&to), length);
  if (sent < 0) {
    RT_LOG(kWarning) << "the service manager at " << address_ << ": " << std::strerror(errno);
  }
  if (fd >= 0) ::close(fd);
}

Heartbeat::Heartbeat(ServiceManager manager, Ask ask)
    : manager_(std::move(manager)), ask_(std::move(ask)) {
  if (manager_.watchdog() > 0) thread_ = std::thread([this] { Run(); });
}

Heartbeat::~Heartbeat() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::Run() {
  const std::chrono::milliseconds pause(
      std::max<Millis>(1, manager_.watchdog() / kBeatsPerWatchdog));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    ask_([manager = manager_] { manager.Alive(); });
    changed_.wait_for(lock, pause, [&] { return stopping_; });
  }
}

}  // namespace rt
