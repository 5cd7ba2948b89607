// The sign of life of the head that leads, beside the shipped log: the object "lead", rewritten
// once a second. It only tells others when it is polite to take over, and where the leader is
// reached: what fences heads is the log itself (shipped_log.h). Whoever watches compares what it
// reads with what it read before, by its own clock: no two machines' clocks are ever compared.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/object_store.h"

namespace rt {

struct LeadSign {
  std::string holder;   // The same for every life of one head.
  std::string address;
  uint64_t beat = 0;    // Changes with every sign of life.
  bool ended = false;   // The head ended, and told so.
};
// Nothing when no head has led yet.
absl::StatusOr<std::optional<LeadSign>> ReadLeadSign(ObjectStore& store);

class LeadBeat {
 public:
  // Writes at once, and then every `every` ms; a failure is logged and tried again.
  LeadBeat(ObjectStore& store, std::string holder, std::string address, Millis every = 1'000);
  // Says that the head ended.
  ~LeadBeat();

 private:
  void Run();
  void Write(bool ended);

  ObjectStore& store_;
  const std::string holder_, address_;
  const Millis every_;
  uint64_t beat_ = 0;  // From a random number on: a restarted head's beats differ.
  bool complained_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// Whether a leader lives, as far as its signs tell. One thread.
class LeadWatch {
 public:
  explicit LeadWatch(Millis stale_after = 3'000) : stale_after_(stale_after) {}

  // Looks at the newest sign. True when there is no leader, or it said that it ended, or it has
  // shown no new sign for `stale_after` since this was first called.
  bool IsFree(const std::optional<LeadSign>& sign);

 private:
  const Millis stale_after_;
  std::optional<LeadSign> last_;
  std::chrono::steady_clock::time_point changed_at_{};
};

}  // namespace rt
