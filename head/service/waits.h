// Parked long polls: each is a check of the state that is run again after durable batches, at most
// once in `interval` for all of them together, until it answers or its hold is over. People,
// drivers and readers of logs have places of their own, so that none takes those of the others.
// Thread-safe. The loop must outlive this.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "head/service/settings.h"

namespace rt {

enum class WaitRole { kPerson, kDriver, kLog };
inline constexpr size_t kWaitRoles = 3;
// Waits of one role at a time: checks cost core time.
inline constexpr size_t kParkedPerRole = 4'096;
// Checks of experiments and jobs count their trials. Those of sessions compare two numbers, and
// their drivers wait for them before they can run a task.
inline constexpr std::chrono::milliseconds kProbeInterval{20}, kSessionProbeInterval{1};

class Waits {
 public:
  // Runs on the core thread: cheap. `last`: the hold is over, answer now.
  using Check = std::function<std::optional<absl::StatusOr<Json>>(
      const Core& core, const HeadFacts& facts, bool last)>;
  Waits(HeadLoop& loop, const Settings& settings,
        std::chrono::milliseconds interval = kProbeInterval);
  ~Waits();  // Closes, and waits for the reads in flight.

  // `hold` is cut to 30 s. RESOURCE_EXHAUSTED through `done` when too many of the role are parked.
  void Add(WaitRole role, Check check, Millis hold, JsonDone done);
  void Changed();  // A batch became durable.
  void Close();    // Answers all with UNAVAILABLE, and every later one.

 private:
  using Clock = std::chrono::steady_clock;
  struct Parked {
    WaitRole role = WaitRole::kPerson;
    Check check;
    Clock::time_point until;
    JsonDone done;
    std::optional<absl::StatusOr<Json>> answer;
  };
  using Group = std::vector<std::shared_ptr<Parked>>;
  void Run();
  void Probe(Group group);
  void Deliver(const Group& group, const absl::Status& status);

  HeadLoop& loop_;
  const Settings& settings_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Parked*, std::shared_ptr<Parked>> parked_;
  std::array<size_t, kWaitRoles> counts_{};  // Of parked_.
  bool dirty_ = false;
  bool closed_ = false;
  bool stopping_ = false;
  int in_flight_ = 0;  // Queries whose answer has not come.
  std::thread thread_;
};

}  // namespace rt
