// Asks a server of this process, every few seconds and over a new connection, whether it still
// answers: a port that is dead in a process that lives is restarted by nobody. Any answer will do,
// a refusal too. `on_dead` is called, in the probe's own thread, after several probes in a row had
// none. A probe during which the machine slept or this process stood still says nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/time.h"
#include "common/rpc/identity.h"

namespace rt {

struct SelfProbeOptions {
  std::string address;
  std::string server_name;  // In the server's certificate.
  std::string method;       // "/package.Service/Method", of no effect.
  Millis every = 5'000;
  Millis timeout = 10'000;
  int failures_max = 3;
};

class SelfProbe {
 public:
  SelfProbe(SelfProbeOptions options, Credentials credentials,
            std::function<void(const std::string& why)> on_dead);
  ~SelfProbe();  // Cancels the probe under way.

 private:
  void Run();
  std::string Ask();  // What is wrong; empty: nothing.

  const SelfProbeOptions options_;
  const Credentials credentials_;
  const std::function<void(const std::string&)> on_dead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::function<void()> cancel_;  // The probe under way.
  std::thread thread_;
};

// Counts the failures in a row. Pure.
class ProbeCount {
 public:
  explicit ProbeCount(int failures_max) : failures_max_(failures_max) {}
  // `took` by a clock that runs while the machine sleeps; true when it is time to give up.
  bool Add(bool answered, Millis took, Millis timeout) {
    constexpr Millis kStood = 1'000;
    if (answered || took > timeout + kStood) failures_ = 0;
    else ++failures_;
    return failures_ >= failures_max_;
  }

 private:
  const int failures_max_;
  int failures_ = 0;
};

}  // namespace rt
