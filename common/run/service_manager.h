// What the init system wants to hear of a daemon that it started (sd_notify(3) and its watchdog,
// spoken without its library): datagrams to the socket that NOTIFY_SOCKET names. Without that
// variable nothing is said. Taken from the environment once, by main, before other threads are
// there: what we start is not to speak for us.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/time.h"

namespace rt {

class ServiceManager {
 public:
  // Reads and removes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  static ServiceManager FromEnvironment();
  explicit ServiceManager(std::string address = "", Millis watchdog = 0)
      : address_(std::move(address)), watchdog_(watchdog) {}

  // We serve; `status` is a line for people (`systemctl status`).
  void Ready(std::string_view status) const;
  void Stopping() const;
  void Alive() const;
  // What FromEnvironment took, for a program that takes this one's place in the same process.
  std::vector<std::string> Environment() const;
  // Without an Alive for this long we are killed and started again; 0: never.
  Millis watchdog() const { return watchdog_; }

 private:
  void Say(const std::string& text) const;

  std::string address_;  // A path, or "@name" of an abstract socket.
  Millis watchdog_;
};

// Says Alive four times per watchdog span, but only as answers of `ask`, which has what does the
// daemon's work call its argument, on any thread, also after this object is gone. One that hangs is
// not alive, whatever its other threads do.
class Heartbeat {
 public:
  using Ask = std::function<void(std::function<void()> alive)>;
  Heartbeat(ServiceManager manager, Ask ask);
  ~Heartbeat();

 private:
  void Run();

  const ServiceManager manager_;
  const Ask ask_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rt
