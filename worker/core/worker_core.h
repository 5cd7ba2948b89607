// What a worker daemon decides: desired x observed -> actions. Pure: no clock, thread, file or
// socket; the daemon (worker/loop/worker_loop.h) and the simulator drive the same code.
//
// The driver of this core
//   * gives every input to Step, in the order things happened, with the time it happened at;
//   * performs the actions in order. Prepare is answered by Prepared, Launch by Launched or by
//     Exited (it could not be started), a process that ends by Exited, an exit by Drained once all
//     that the process reported is in the spool. Signal, Forget and SyncNow are not answered;
//   * gives a Tick at least every 100 ms while attempts live: stop graces and retries run by it;
//   * sends ObservedList(state) with every Sync, and the reply, in order of sync_seq, as Desired.
// After a restart of the daemon the state starts empty: first one Recovered per attempt found on
// disk, then the first Sync.
//
// When no head has answered for too long it gives HeadAway: what runs saves and ends, as when it is
// suspended, and its rows wait in the spool.
//
// Rules: a reply of an older epoch is ignored. An attempt that is absent from the desired list, or
// has `stop`, gets SIGTERM, then SIGKILL after limits::kStopGrace. An attempt with `suspend` is
// asked to save and end; it gets the signals once it has saved, at the latest after
// limits::kSuspendGrace. An attempt with `evict` is asked to save, because its node drains; it gets
// the signals once it has saved, and keeps running if it does not save. When `evict` is withdrawn
// before, the attempt is notified. An attempt with `freeze` is asked to save, and is frozen once it
// has, at the latest after limits::kSuspendGrace; without `freeze` it is thawed. Nothing but
// SIGKILL reaches a frozen one. An attempt that hangs writes its stacks and gets SIGKILL after
// limits::kDumpGrace. An absent attempt is forgotten when it has ended; a desired one that ended
// stays observed until the head no longer desires it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"
#include "common/spec/observed.h"

namespace rt::worker {

using Error = ErrorInfo;
using rt::Observed;

// How a process ended; exit_code and signal are those of the user's process.
struct ExitFacts {
  int32_t exit_code = 0;
  int32_t signal = 0;
  bool witnessed = true;  // A daemon was alive when it happened.
  bool launch_failed = false;
  std::string reason;              // For people; may be empty.
  bool broken_checkpoint = false;  // It was not launched: that is not what was saved.
  bool hung = false;               // It was ended because it had not reported for too long.
  bool untested = false;  // It was not launched: its preflight failed without naming a device.
  friend bool operator==(const ExitFacts&, const ExitFacts&) = default;
};

enum class FreezeStep : uint8_t {
  kNone,
  kSaving,    // It was asked to save first.
  kFreezing,  // Freeze is under way.
  kFrozen,
  kThawing,  // Thaw is.
};

namespace input {
struct DesiredAttempt {
  Fence fence;
  bool stop = false;
  bool has_body = false;  // What is needed to start it is at hand.
  bool suspend = false;
  uint64_t decided_seq = 0;  // Up to here the driver has decided about rows.
  bool evict = false;
  Millis evict_by = 0;               // By this daemon's clock; 0: no deadline.
  uint64_t complete_seq = 0;         // Of a gang: the newest row with a complete checkpoint.
  std::optional<Fence> start_after;  // It starts once that one has ended.
  uint64_t profile_seq = 0;          // Up to this line the head has recorded what it measured.
  uint32_t freeze = 0;               // It is to be frozen: the round. 0: it runs.
};
struct Desired {
  uint64_t epoch = 0;
  std::vector<DesiredAttempt> attempts;
};
// Bundle, inputs and checkpoint are in place, or not: `transient` failures are tried again.
struct Prepared {
  Fence fence;
  bool ok = true;
  bool transient = false;
  std::string why;
  uint32_t port = 0;  // Kept for the attempt's ranks, if it has several and this is the first.
  bool broken_checkpoint = false;
};
struct Launched {
  Fence fence;
  uint64_t pid = 0;
};
struct Exited {
  Fence fence;
  ExitFacts exit;
};
struct Drained {
  Fence fence;
  uint64_t last_seq = 0;  // Of its spool; 0: it reported nothing.
  Error error;
  bool suspended = false;  // It said that it ended because it was suspended.
  std::vector<uint32_t> log_matches = {};
  std::string note = {};  // For the reason of its end, when there is no other.
};
// A rank that was asked to save has saved, or never will: it could not be asked.
struct Saved {
  Fence fence;
};
// Found on disk after the daemon's start: running (pid), or ended meanwhile (exit).
struct Recovered {
  Fence fence;
  uint64_t pid = 0;
  std::optional<ExitFacts> exit;
  uint32_t port = 0;
  bool evicting = false;  // It was asked to end once it had saved.
  bool orphaned = false;  // It was asked to save and end because no head answered.
  // What a daemon before this one had begun: kFreezing, kFrozen or kThawing, in this round.
  FreezeStep freeze_step = FreezeStep::kNone;
  uint32_t freeze_round = 0;
};
// It has not reported for too long; may be said again.
struct Hung {
  Fence fence;
  std::string why;
};
// A gpu that it holds has failed for good: it has limits::kGpuFaultGrace to end by itself.
struct GpuFailed {
  Fence fence;
};
// The answer to Freeze: it is frozen, or it is as before (it runs, or is frozen since an earlier
// round) and `why` says why, or, if it is `broken`, neither: it has to be ended.
struct Frozen {
  Fence fence;
  uint32_t round = 0;
  std::string why;  // "": it is frozen.
  bool is_broken = false;
};
// The answer to Thaw: it runs; or not: `transient` failures are tried again, others end it.
struct Thawed {
  Fence fence;
  std::string why;  // "": it runs.
  bool transient = false;
};
struct HeadAway {};
struct Tick {};
}  // namespace input

using WorkerInput =
    std::variant<input::Desired, input::Prepared, input::Launched, input::Exited, input::Drained,
                 input::Saved, input::Recovered, input::Hung, input::GpuFailed, input::HeadAway,
                 input::Tick, input::Frozen, input::Thawed>;

namespace action {
struct Prepare {
  Fence fence;
  friend bool operator==(const Prepare&, const Prepare&) = default;
};
struct Launch {
  Fence fence;
  friend bool operator==(const Launch&, const Launch&) = default;
};
struct Signal {
  Fence fence;
  bool kill = false;       // SIGKILL; otherwise SIGTERM to the group.
  bool suspended = false;  // It was suspended: a later daemon must know.
  friend bool operator==(const Signal&, const Signal&) = default;
};
// Ask it to save and end. Answered by Saved once a checkpoint is committed, or it cannot be asked.
struct Suspend {
  Fence fence;
  friend bool operator==(const Suspend&, const Suspend&) = default;
};
// Ask it to save before the deadline (0: none): its node drains. Answered by Saved once a
// checkpoint is committed.
struct Announce {
  Fence fence;
  Millis by = 0;
  friend bool operator==(const Announce&, const Announce&) = default;
};
// Notify it that this was a false alarm.
struct Recall {
  Fence fence;
  friend bool operator==(const Recall&, const Recall&) = default;
};
// Ask it to save and to continue. Answered by Saved as above.
struct Save {
  Fence fence;
  friend bool operator==(const Save&, const Save&) = default;
};
// Move what it has on gpus to the host, and stop its processes. May be asked again of one that is
// frozen, in a later round. Answered by Frozen.
struct Freeze {
  Fence fence;
  uint32_t round = 0;
  friend bool operator==(const Freeze&, const Freeze&) = default;
};
// Let them continue. Answered by Thawed.
struct Thaw {
  Fence fence;
  friend bool operator==(const Thaw&, const Thaw&) = default;
};
// Let it write its stacks into its log, if it can: it is about to be killed.
struct Dump {
  Fence fence;
  friend bool operator==(const Dump&, const Dump&) = default;
};
// Close its socket, remove its run directory and spool (its logs are kept).
struct Forget {
  Fence fence;
  friend bool operator==(const Forget&, const Forget&) = default;
};
// What is observed changed: the head should hear of it now, because something waits for it.
struct SyncNow {
  friend bool operator==(const SyncNow&, const SyncNow&) = default;
};
// It changed, and nothing waits: the next Sync may carry more of it.
struct SyncSoon {
  friend bool operator==(const SyncSoon&, const SyncSoon&) = default;
};
}  // namespace action

using Action =
    std::variant<action::Prepare, action::Launch, action::Signal, action::Suspend, action::Announce,
                 action::Recall, action::Dump, action::Forget, action::SyncNow, action::SyncSoon,
                 action::Save, action::Freeze, action::Thaw>;

enum class Stage : uint8_t {
  kPreparing,  // Prepare is under way.
  kRetrying,   // It failed for now; again at `retry_at`.
  kWaiting,    // Ready; the attempt before it has not ended yet.
  kLaunching,
  kRunning,
  kDraining,  // Ended; its last reports are being collected.
  kExited,    // All is known; kept until the head no longer desires it.
};
struct AttemptState {
  Stage stage = Stage::kPreparing;
  bool wanted = true;  // In the newest desired list.
  bool stop = false;   // Sticky.
  uint64_t pid = 0;
  uint32_t port = 0;
  uint32_t tries = 0;
  Millis retry_at = 0;
  std::set<Fence> start_after;       // Attempts that must end before this one may start.
  bool suspend = false;              // Sticky.
  bool orphaned = false;             // Suspended because no head answered.
  std::optional<Millis> suspend_at;  // When it was asked to save and end.
  bool saved = false;
  bool suspended = false;  // It said that it ended because of that.
  bool evict = false;      // As the newest desired list says.
  Millis evict_by = 0;
  bool announced = false;  // It was asked to save because of that, by `announced_by`.
  Millis announced_by = 0;
  bool evicting = false;  // It has saved since: it ends, also after a false alarm.
  uint32_t freeze = 0;    // As the newest desired list says.
  FreezeStep freeze_step = FreezeStep::kNone;
  std::optional<Millis> freeze_at;  // When it was asked to save for that, and whether it has.
  bool freeze_saved = false;
  uint32_t frozen = 0;  // The round; 0: it runs.
  uint32_t freeze_refused = 0;
  std::string freeze_why;
  std::string broken;             // It can neither run nor be frozen: why. It is ended.
  std::optional<Millis> hung_at;  // When it was said to hang.
  std::string hung_why;
  std::optional<Millis> gpu_failed_at;  // When a gpu of it was said to have failed.
  std::optional<Millis> term_at;        // When SIGTERM was sent.
  std::optional<Millis> kill_at;
  ExitFacts exit;
  uint64_t last_seq = 0;
  Error error;
  std::vector<uint32_t> log_matches;
};
struct WorkerState {
  uint64_t epoch = 0;
  std::map<Fence, AttemptState> attempts;
  // Desired, and asked for again because their bodies did not come.
  std::set<Fence> awaiting_bodies;
};

// Whether it is frozen, or on its way there or back: signals other than SIGKILL may not reach it.
bool IsStopped(const AttemptState& attempt);

std::vector<Action> Step(WorkerState& state, const WorkerInput& input, Millis now);
// What Sync reports, by fence.
std::vector<Observed> ObservedList(const WorkerState& state);

}  // namespace rt::worker
