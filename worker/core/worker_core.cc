#include "worker/core/worker_core.h"

#include <algorithm>
#include <set>

#include "common/base/deadline.h"
#include "common/base/limits.h"

namespace rt::worker {
namespace {

constexpr Millis kRetryFirst = 50;
constexpr Millis kRetryMost = 1'000;
constexpr int32_t kSigTerm = 15;
constexpr char kNotStarted[] = "stopped before it was started";
constexpr char kKilledFrozen[] = "its process was killed while it was frozen";
constexpr char kOrphaned[] = "its worker had no head for too long, and ended it";

// One Step: the inputs change the attempts, Advance draws the consequences.
class Stepper {
 public:
  Stepper(WorkerState& state, Millis now) : state_(state), now_(now) {}

  void On(const input::Desired& desired) {
    if (desired.epoch < state_.epoch) return;
    state_.epoch = desired.epoch;
    std::set<Fence> wanted;
    state_.awaiting_bodies.clear();
    for (const auto& item : desired.attempts) {
      wanted.insert(item.fence);
      Want(item);
    }
    for (auto& [fence, attempt] : state_.attempts) {
      if (wanted.contains(fence)) continue;
      attempt.wanted = false;
      attempt.stop = true;
    }
    AdvanceAll();
  }

  void On(const input::Prepared& prepared) {
    AttemptState* attempt = Find(prepared.fence, {Stage::kPreparing});
    if (attempt == nullptr) return;
    attempt->port = prepared.port;
    changed_ = changed_ || prepared.port != 0;  // The other ranks wait for it.
    if (IsUnwanted(*attempt)) {
      NeverStarted(*attempt, kNotStarted);
    } else if (prepared.ok) {
      attempt->stage = Stage::kWaiting;
    } else if (prepared.transient) {
      attempt->stage = Stage::kRetrying;
      attempt->retry_at = now_ + std::min(kRetryMost, kRetryFirst << std::min(attempt->tries, 5u));
      ++attempt->tries;
    } else {
      NeverStarted(*attempt, prepared.why);
      attempt->exit.launch_failed = true;
      attempt->exit.broken_checkpoint = prepared.broken_checkpoint;
      attempt->exit.signal = 0;
    }
    Advance(prepared.fence);
  }

  void On(const input::Launched& launched) {
    AttemptState* attempt = Find(launched.fence, {Stage::kLaunching});
    if (attempt == nullptr) return;
    attempt->stage = Stage::kRunning;
    attempt->pid = launched.pid;
    changed_soon_ = true;
    Advance(launched.fence);
  }

  void On(const input::Exited& exited) {
    AttemptState* attempt = Find(exited.fence, {Stage::kLaunching, Stage::kRunning});
    if (attempt == nullptr) return;
    attempt->stage = Stage::kDraining;
    attempt->exit = exited.exit;
    if (IsStopped(*attempt) && !attempt->stop && exited.exit.signal != 0) {
      attempt->exit.witnessed = false;  // Not its own failure: it did not run.
      attempt->exit.reason = attempt->broken.empty() ? kKilledFrozen : attempt->broken;
    }
    if (attempt->hung_at && (exited.exit.exit_code != 0 || exited.exit.signal != 0)) {
      attempt->exit.hung = true;
      attempt->exit.reason = attempt->hung_why;
    }
    AdvanceAll();  // Another attempt may have waited for this.
  }

  void On(const input::Drained& drained) {
    AttemptState* attempt = Find(drained.fence, {Stage::kDraining});
    if (attempt == nullptr) return;
    attempt->stage = Stage::kExited;
    attempt->last_seq = drained.last_seq;
    attempt->error = drained.error;
    attempt->log_matches = drained.log_matches;
    if (attempt->exit.reason.empty()) attempt->exit.reason = drained.note;
    attempt->suspended = attempt->suspended || drained.suspended;
    changed_ = true;
    Advance(drained.fence);
  }

  void On(const input::Saved& saved) {
    AttemptState* attempt = Find(saved.fence, {Stage::kRunning});
    if (attempt == nullptr) return;
    attempt->saved = attempt->saved || attempt->suspend_at.has_value();
    attempt->freeze_saved = attempt->freeze_saved || attempt->freeze_step == FreezeStep::kSaving;
    attempt->evicting = attempt->evicting || attempt->announced;
    Advance(saved.fence);
  }

  void On(const input::Recovered& recovered) {
    AttemptState attempt;
    attempt.stage = recovered.exit ? Stage::kDraining : Stage::kRunning;
    attempt.pid = recovered.pid;
    attempt.port = recovered.port;
    attempt.evicting = recovered.evicting;
    attempt.suspend = attempt.orphaned = recovered.orphaned;
    if (recovered.exit) attempt.exit = *recovered.exit;
    else RecoverFreeze(recovered, attempt);
    state_.attempts.emplace(recovered.fence, std::move(attempt));
  }

  void On(const input::Hung& hung) {
    AttemptState* attempt = Find(hung.fence, {Stage::kRunning});
    if (attempt == nullptr || attempt->hung_at || attempt->term_at) return;
    attempt->hung_at = now_;
    attempt->hung_why = hung.why;
    actions_.push_back(action::Dump{hung.fence});
  }

  void On(const input::GpuFailed& failed) {
    AttemptState* attempt = Find(failed.fence, {Stage::kLaunching, Stage::kRunning});
    if (attempt != nullptr && !attempt->gpu_failed_at) attempt->gpu_failed_at = now_;
  }

  void On(const input::Frozen& frozen) {
    AttemptState* attempt = Find(frozen.fence, {Stage::kRunning});
    if (attempt == nullptr || attempt->freeze_step != FreezeStep::kFreezing) return;
    if (attempt->frozen != 0 && !frozen.why.empty() && !frozen.is_broken) {
      attempt->freeze_step = FreezeStep::kFrozen;  // As before; the next Tick asks again.
      return;
    }
    changed_ = true;
    if (frozen.is_broken) {
      attempt->broken = frozen.why;
    } else if (frozen.why.empty()) {
      attempt->freeze_step = FreezeStep::kFrozen;
      attempt->frozen = frozen.round;
    } else {
      attempt->freeze_step = FreezeStep::kNone;
      attempt->freeze_refused = frozen.round;
      attempt->freeze_why = frozen.why;
    }
    Advance(frozen.fence);
  }

  void On(const input::Thawed& thawed) {
    AttemptState* attempt = Find(thawed.fence, {Stage::kRunning});
    if (attempt == nullptr || attempt->freeze_step != FreezeStep::kThawing) return;
    if (thawed.transient) {
      attempt->freeze_step = FreezeStep::kFrozen;  // The next Tick tries again.
      return;
    }
    attempt->broken = thawed.why;
    if (thawed.why.empty()) {
      attempt->freeze_step = FreezeStep::kNone;
      attempt->frozen = 0;
      changed_soon_ = true;
    }
    Advance(thawed.fence);
  }

  void On(const input::HeadAway&) {
    for (auto& [fence, attempt] : state_.attempts) {
      if (attempt.stop || attempt.suspend || IsStopped(attempt)) continue;
      attempt.suspend = true;
      attempt.orphaned = true;
    }
    AdvanceAll();
  }

  void On(const input::Tick&) { AdvanceAll(); }

  std::vector<Action> Finish() {
    if (changed_) {
      actions_.push_back(action::SyncNow{});
    } else if (changed_soon_) {
      actions_.push_back(action::SyncSoon{});
    }
    return std::move(actions_);
  }

 private:
  void Want(const input::DesiredAttempt& item) {
    auto found = state_.attempts.find(item.fence);
    if (found != state_.attempts.end()) {
      found->second.wanted = true;
      found->second.stop = found->second.stop || item.stop;
      found->second.suspend = found->second.suspend || item.suspend;
      found->second.evict = item.evict;
      found->second.evict_by = item.evict_by;
      found->second.freeze = item.freeze;
      if (item.start_after) found->second.start_after.insert(*item.start_after);
      return;
    }
    if (!item.has_body && !item.stop) {
      state_.awaiting_bodies.insert(item.fence);
      changed_soon_ = true;  // It was listed by a request that we outlived: ask again without it.
      return;
    }
    AttemptState& attempt = state_.attempts[item.fence];
    attempt.stop = item.stop;
    attempt.suspend = item.suspend;
    attempt.evict = item.evict;
    attempt.evict_by = item.evict_by;
    attempt.freeze = item.freeze;
    if (item.start_after) attempt.start_after.insert(*item.start_after);
    if (IsUnwanted(attempt)) {
      NeverStarted(attempt, kNotStarted);
    } else {
      actions_.push_back(action::Prepare{item.fence});
    }
  }

  // An attempt that would be ended at once is not started.
  static bool IsUnwanted(const AttemptState& attempt) {
    return attempt.stop || attempt.suspend || attempt.evict || attempt.freeze != 0;
  }

  // Also what was not finished: it may be half done.
  void RecoverFreeze(const input::Recovered& recovered, AttemptState& attempt) {
    attempt.freeze_step = recovered.freeze_step;
    if (recovered.freeze_step == FreezeStep::kNone) return;
    const bool thaws = recovered.freeze_step == FreezeStep::kThawing;
    attempt.freeze = thaws ? 0 : recovered.freeze_round;
    if (recovered.freeze_step != FreezeStep::kFreezing) attempt.frozen = recovered.freeze_round;
    if (thaws) actions_.push_back(action::Thaw{recovered.fence});
    if (recovered.freeze_step == FreezeStep::kFreezing)
      actions_.push_back(action::Freeze{recovered.fence, recovered.freeze_round});
  }

  AttemptState* Find(const Fence& fence, std::initializer_list<Stage> stages) {
    auto found = state_.attempts.find(fence);
    if (found == state_.attempts.end()) return nullptr;
    bool expected = std::find(stages.begin(), stages.end(), found->second.stage) != stages.end();
    return expected ? &found->second : nullptr;
  }

  void NeverStarted(AttemptState& attempt, const std::string& reason) {
    attempt.stage = Stage::kExited;
    attempt.exit = ExitFacts{.signal = kSigTerm, .reason = reason};
    attempt.suspended = attempt.suspend || attempt.evict || attempt.freeze != 0;
    changed_ = true;
  }

  void AdvanceAll() {
    for (auto next = state_.attempts.begin(); next != state_.attempts.end();) {
      auto current = next++;
      Advance(current->first);
    }
  }

  // Draws the consequences for one attempt; may erase it.
  void Advance(Fence fence) {
    AttemptState& attempt = state_.attempts.at(fence);
    if (attempt.stage == Stage::kRetrying) {
      if (IsUnwanted(attempt)) {
        NeverStarted(attempt, kNotStarted);
      } else if (now_ >= attempt.retry_at) {
        attempt.stage = Stage::kPreparing;
        actions_.push_back(action::Prepare{fence});
      }
    }
    if (attempt.stage == Stage::kWaiting) {
      if (IsUnwanted(attempt)) {
        NeverStarted(attempt, kNotStarted);
      } else if (!HasStray() && !MustWait(attempt) && !HasSuccessorRunning(fence)) {
        attempt.stage = Stage::kLaunching;
        actions_.push_back(action::Launch{fence});
      }
    }
    if (attempt.stage == Stage::kRunning) EndAsDue(fence, attempt);
    const bool ended = attempt.stage == Stage::kDraining || attempt.stage == Stage::kExited;
    if (!attempt.wanted && ended) {
      actions_.push_back(action::Forget{fence});
      state_.attempts.erase(fence);
      changed_soon_ = true;
    }
  }

  static bool Runs(const AttemptState& attempt) {
    return attempt.stage == Stage::kLaunching || attempt.stage == Stage::kRunning;
  }

  // Whether an attempt that the head has given up still runs, on capacity that is not its own now.
  bool HasStray() const {
    return std::any_of(state_.attempts.begin(), state_.attempts.end(),
                       [](const auto& one) { return !one.second.wanted && Runs(one.second); });
  }

  // Whether an attempt before it runs or will. One that never ran had attempts before it as well.
  bool MustWait(const AttemptState& attempt) const {
    return std::any_of(
        attempt.start_after.begin(), attempt.start_after.end(), [&](const Fence& fence) {
          const auto before = state_.attempts.find(fence);
          if (before == state_.attempts.end()) return state_.awaiting_bodies.contains(fence);
          const bool ended =
              before->second.stage == Stage::kDraining || before->second.stage == Stage::kExited;
          return !ended || MustWait(before->second);
        });
  }

  // Whether an attempt behind it runs on its capacity already: it had ended without having run, and
  // the previous daemon could not report that to the head.
  bool HasSuccessorRunning(const Fence& fence) const {
    return std::any_of(state_.attempts.begin(), state_.attempts.end(), [&](const auto& one) {
      return Runs(one.second) && StartsAfter(one.second, fence);
    });
  }

  bool StartsAfter(const AttemptState& attempt, const Fence& fence) const {
    return std::any_of(
        attempt.start_after.begin(), attempt.start_after.end(), [&](const Fence& before) {
          const auto found = state_.attempts.find(before);
          return before == fence ||
                 (found != state_.attempts.end() && StartsAfter(found->second, fence));
        });
  }

  void EndAsDue(const Fence& fence, AttemptState& attempt) {
    if (attempt.hung_at) {
      if (now_ - *attempt.hung_at >= limits::kDumpGrace) KillAsDue(fence, attempt);
    } else if (!attempt.broken.empty() || HasOutlivedItsGpu(attempt)) {
      KillAsDue(fence, attempt);
    } else if ((attempt.stop || attempt.evicting || attempt.suspend) && IsStopped(attempt)) {
      if (!attempt.term_at) attempt.term_at = now_;
      KillAsDue(fence, attempt);
    } else if (attempt.stop || attempt.evicting) {
      SignalAsDue(fence, attempt);
    } else if (attempt.suspend) {
      attempt.freeze_step = FreezeStep::kNone;
      SuspendAsDue(fence, attempt);
    } else if (attempt.freeze_step != FreezeStep::kNone || WantsFreeze(attempt)) {
      FreezeAsDue(fence, attempt);
    } else if (attempt.evict) {
      if (attempt.announced && IsSameDeadline(attempt.announced_by, attempt.evict_by, now_)) return;
      attempt.announced = true;
      attempt.announced_by = attempt.evict_by;
      actions_.push_back(action::Announce{fence, attempt.evict_by});
    } else if (attempt.announced) {
      attempt.announced = false;
      actions_.push_back(action::Recall{fence});
    }
  }

  bool HasOutlivedItsGpu(const AttemptState& attempt) const {
    return attempt.gpu_failed_at && now_ - *attempt.gpu_failed_at >= limits::kGpuFaultGrace;
  }

  static bool WantsFreeze(const AttemptState& attempt) {
    return attempt.freeze != 0 && attempt.freeze != attempt.freeze_refused;
  }

  void FreezeAsDue(const Fence& fence, AttemptState& attempt) {
    switch (attempt.freeze_step) {
      case FreezeStep::kNone:
        attempt.freeze_step = FreezeStep::kSaving;
        attempt.freeze_at = now_;
        attempt.freeze_saved = false;
        actions_.push_back(action::Save{fence});
        return;
      case FreezeStep::kSaving:
        if (attempt.freeze == 0) {
          attempt.freeze_step = FreezeStep::kNone;
        } else if (attempt.freeze_saved || now_ - *attempt.freeze_at >= limits::kSuspendGrace) {
          BeginFreeze(fence, attempt);
        }
        return;
      case FreezeStep::kFrozen:
        if (attempt.freeze != 0 && attempt.freeze != attempt.frozen) {
          BeginFreeze(fence, attempt);  // It was to be thawed in between.
        } else if (attempt.freeze == 0 && !HasStray()) {
          attempt.freeze_step = FreezeStep::kThawing;
          actions_.push_back(action::Thaw{fence});
        }
        return;
      case FreezeStep::kFreezing:
      case FreezeStep::kThawing: return;
    }
  }

  void BeginFreeze(const Fence& fence, AttemptState& attempt) {
    attempt.freeze_step = FreezeStep::kFreezing;
    actions_.push_back(action::Freeze{fence, attempt.freeze});
  }

  void SuspendAsDue(const Fence& fence, AttemptState& attempt) {
    if (!attempt.suspend_at) {
      attempt.suspend_at = now_;
      actions_.push_back(action::Suspend{fence});
    } else if (attempt.saved || now_ - *attempt.suspend_at >= limits::kSuspendGrace) {
      SignalAsDue(fence, attempt);
    }
  }

  void SignalAsDue(const Fence& fence, AttemptState& attempt) {
    if (!attempt.term_at) {
      attempt.term_at = now_;
      actions_.push_back(action::Signal{fence, false, !attempt.stop});
    } else if (now_ - attempt.kill_at.value_or(*attempt.term_at) >= limits::kStopGrace) {
      attempt.kill_at = now_;
      actions_.push_back(action::Signal{fence, true, !attempt.stop});
    }
  }

  void KillAsDue(const Fence& fence, AttemptState& attempt) {
    if (attempt.kill_at && now_ - *attempt.kill_at < limits::kStopGrace) return;
    attempt.kill_at = now_;
    actions_.push_back(action::Signal{fence, true});
  }

  WorkerState& state_;
  Millis now_;
  bool changed_ = false;
  bool changed_soon_ = false;
  std::vector<Action> actions_;
};

Observed::Phase PhaseOf(Stage stage) {
  switch (stage) {
    case Stage::kPreparing:
    case Stage::kRetrying:
    case Stage::kWaiting:
    case Stage::kLaunching: return Observed::Phase::kPreparing;
    case Stage::kRunning:
    case Stage::kDraining: return Observed::Phase::kRunning;
    case Stage::kExited: return Observed::Phase::kExited;
  }
  return Observed::Phase::kPreparing;
}

}  // namespace

bool IsStopped(const AttemptState& attempt) {
  return attempt.freeze_step != FreezeStep::kNone && attempt.freeze_step != FreezeStep::kSaving;
}

std::vector<Action> Step(WorkerState& state, const WorkerInput& input, Millis now) {
  Stepper stepper(state, now);
  std::visit([&](const auto& one) { stepper.On(one); }, input);
  return stepper.Finish();
}

std::vector<Observed> ObservedList(const WorkerState& state) {
  std::vector<Observed> list;
  list.reserve(state.attempts.size());
  for (const auto& [fence, attempt] : state.attempts) {
    Observed observed{
        .fence = fence, .phase = PhaseOf(attempt.stage), .pid = attempt.pid, .port = attempt.port};
    observed.frozen = attempt.frozen;
    observed.freeze_refused = attempt.freeze_refused;
    observed.freeze_why = attempt.freeze_why;
    if (attempt.stage == Stage::kExited) {
      const ExitFacts& exit = attempt.exit;
      observed.exit_code = exit.exit_code;
      observed.signal = exit.signal;
      observed.witnessed = exit.witnessed;
      observed.launch_failed = exit.launch_failed;
      observed.broken_checkpoint = exit.broken_checkpoint;
      observed.hung = exit.hung;
      observed.untested = exit.untested;
      observed.reason = exit.reason;
      const bool is_ended_for_it = (attempt.suspend || attempt.evicting) && attempt.term_at;
      observed.suspended = attempt.suspended || is_ended_for_it;
      observed.orphaned = observed.suspended && attempt.orphaned;
      if (observed.orphaned) observed.reason = kOrphaned;
      observed.last_seq = attempt.last_seq;
      observed.error = attempt.error;
      observed.log_matches = {attempt.log_matches.begin(), attempt.log_matches.end()};
    }
    list.push_back(std::move(observed));
  }
  return list;
}

}  // namespace rt::worker
