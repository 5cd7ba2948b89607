// What the worker's loop is busy with: it names each attempt before it handles it, which costs a
// few stores. The watchdog (loop_watch.h) reads it from another thread, and passes the activity
// that hung on to the daemon that replaces this one.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt::worker {

enum class ActivityKind : uint32_t {
  kNone,      // No attempt: the loop waits, or does what concerns the whole node.
  kTakeover,  // The attempt is taken over from an earlier daemon.
  kStart,
  kAct,     // It is signalled, asked to save, checked, or forgotten.
  kOutput,  // Reports are read from its standard output.
  kEnd,     // Its exit and its last reports.
};
const char* ActivityName(ActivityKind part);

// An attempt that a daemon hung in.
struct HungActivity {
  Fence fence;
  ActivityKind part = ActivityKind::kNone;
  Millis span = 0;
  std::string Reason() const;  // Of the attempt's end, for people.
};
// "t3-1.a1.r0 output 30000", and back; nullopt when malformed.
std::string ToString(const HungActivity& hung);
std::optional<HungActivity> ParseHungActivity(const std::string& text);

class LoopActivity {
 public:
  // The loop's thread begins another round; `thread`: it, as gettid() says.
  void NextRound(int thread);
  // Until the end of the scope the loop is busy with the attempt.
  class [[nodiscard]] Scope {
   public:
    Scope(LoopActivity& activity, const Fence& fence, ActivityKind part);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    LoopActivity& activity_;
    const Fence fence_before_;
    const ActivityKind part_before_;
  };

  uint64_t moves() const { return moves_; }  // Grows with everything that the loop does.
  int thread() const { return thread_; }
  Fence fence() const;  // With kNone: none.
  ActivityKind part() const { return part_; }

 private:
  void Name(const Fence& fence, ActivityKind part);

  // Each by itself: what is read while the loop moves may be mixed, and is not used.
  std::atomic<uint64_t> moves_ = 0;
  std::atomic<int> thread_ = 0;
  std::atomic<ActivityKind> part_ = ActivityKind::kNone;
  std::atomic<Owner::Kind> kind_ = Owner::Kind::kNone;
  std::atomic<uint64_t> group_ = 0;
  std::atomic<uint32_t> owner_number_ = 0, number_ = 0, generation_ = 0, rank_ = 0;
};

}  // namespace rt::worker
