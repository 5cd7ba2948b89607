// Watches the worker's loop from a thread of its own. When the loop has not moved for half the
// bound, the node is reported as unable to take work, with the attempt that the loop is busy with.
// After the whole bound the daemon is to be replaced. Some time does not count: that in which this
// thread did not run either (a suspended machine, SIGSTOP), that in which the loop's thread waited
// for a processor (a busy machine), and that in which it waited for a device or a debugger.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/time.h"
#include "worker/loop/loop_activity.h"

namespace rt::worker {

// What the kernel says about the loop's thread.
struct ThreadFacts {
  bool is_held = false;  // It waits for a device, or a debugger holds it.
  Millis waited = 0;     // How long it has waited for a processor since it started.
};

// How long the loop has been seen not to move. Pure; times are of a clock that only goes forward.
class StallMeter {
 public:
  // `period`: how often Look is meant to be called.
  explicit StallMeter(Millis period) : period_(period) {}
  // `moves` as LoopActivity has it. Returns how long the loop could have moved and did not.
  Millis Look(uint64_t moves, const ThreadFacts& thread, Millis now);

 private:
  const Millis period_;
  uint64_t moves_ = 0;
  Millis looked_at_ = 0;
  Millis waited_ = 0;
  Millis stalled_ = 0;
};

struct LoopWatchEvents {
  // Why the node can take no work now. Empty: it can again.
  std::function<void(const std::string& why)> on_fault;
  // Need not return.
  std::function<void(const HungActivity& hung)> on_hung;
};

class LoopWatch {
 public:
  // With a `bound` of 0 nothing is watched.
  LoopWatch(const LoopActivity& activity, Millis bound, LoopWatchEvents events);
  ~LoopWatch();
  void Stop();

 private:
  void Run();
  void Look(StallMeter& meter);

  const LoopActivity& activity_;
  const Millis bound_;
  const Millis period_;
  const LoopWatchEvents events_;
  bool is_faulty_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rt::worker
