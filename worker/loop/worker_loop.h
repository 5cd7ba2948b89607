// The daemon's centre: one thread that feeds the core (worker/core) and performs what it decides.
// It also watches the shims' pidfds and takes reports from standard output. Post and observed are
// thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "common/run/io_pool.h"
#include "worker/core/gpu_holds.h"
#include "worker/core/worker_core.h"
#include "worker/launch/freezer.h"
#include "worker/launch/launcher.h"
#include "worker/loop/kept_outputs.h"
#include "worker/loop/loop_activity.h"
#include "worker/session/live_attempt.h"
#include "worker/session/refusal_log.h"
#include "worker/session/trial_socket.h"

namespace rt::worker {

struct LoopParts {
  Launcher& launcher;
  TrialSocket& socket;
  IoPool& pool;
  AttemptTable& attempts;
  CheckpointPushes& pushes;
  OutputKeeps& outputs;
  LoopActivity& activity;
  GpuHolds& gpus;
};

class WorkerLoop {
 public:
  // `on_row(urgent)` wakes the report loop, `on_change(urgent)` the sync loop.
  WorkerLoop(LoopParts parts, std::function<void(bool)> on_row,
             std::function<void(bool)> on_change);
  ~WorkerLoop();
  // Takes over what earlier daemons left, then starts the thread. Blocks a little. `hung`: the
  // attempt that the daemon before this one hung in: it is ended instead, and not handled again.
  void Start(const std::optional<HungActivity>& hung = std::nullopt);
  void Stop();

  void Post(WorkerInput input);
  void PostDesired(input::Desired desired, std::vector<LaunchBody> bodies);
  std::vector<Observed> observed() const;
  // What is observed no more and has outputs that are not kept yet. Ask it after observed().
  std::vector<Fence> outputs_pending() const { return parts_.outputs.Pending(); }
  void Wake();  // Something that an end waits for may be done.
  // Called by the loop's thread at its next turn: it is at work.
  void Ask(std::function<void()> alive);

 private:
  void SendDecided(const input::Desired& desired, bool suspended);
  // An attempt whose warm-start server has not answered.
  struct Forking {
    LaunchBody body;
    int connection = -1;
    Millis wait_until = 0;
  };
  void Run();
  void WaitForWork();
  void TakeForked();
  // True when it was answered.
  bool TakeReply(const Forking& forking);
  void Start(LaunchBody body, bool may_be_warm);
  // The job of Start, on the pool.
  void LaunchNow(const LaunchBody& body, bool may_be_warm);
  void EndPreflight(const Fence& fence, const PreflightResult& found);
  void TakeExits();
  void Feed(const WorkerInput& input);
  void Perform(const action::Prepare& prepare);
  void Perform(const action::Launch& launch);
  void Perform(const action::Signal& signal);
  void Perform(const action::Suspend& suspend);
  void Perform(const action::Announce& announce);
  void Perform(const action::Recall& recall);
  void Perform(const action::Dump& dump);
  void Perform(const action::Save& save);
  void Perform(const action::Freeze& freeze);
  void Perform(const action::Thaw& thaw);
  FreezeJob FreezeJobOf(const LiveAttempt& live) const;
  void Perform(const action::Forget& forget);
  void Perform(const action::SyncNow&);
  void Perform(const action::SyncSoon&);
  absl::StatusOr<std::shared_ptr<LiveAttempt>> Open(const LaunchBody& body);
  void Adopt(const Launcher::Found& found);
  void Condemn(const HungActivity& hung, const Launcher::Found* found);
  void Watch(const Fence& fence);
  void HoldGpus(const LaunchBody& body, bool is_adopted);
  void NoteEnd(const Fence& fence, const ExitFacts& exit);
  void PumpRunning();
  void WatchMemory();
  void WatchProgress();
  bool IsItsEnd(const LiveAttempt& live, const Fence& fence) const;
  void SayWaits(const Fence& fence, const absl::Status& why);
  std::string GiveUpPush(const LiveAttempt& live, const Fence& fence);
  void PumpEnded();

  LoopParts parts_;
  std::function<void(bool)> on_row_;
  std::function<void(bool)> on_change_;
  const Freezer freezer_;
  int wake_ = -1;
  std::thread thread_;
  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::deque<WorkerInput> inputs_;
  std::vector<std::function<void()>> asked_;
  std::map<Fence, LaunchBody> bodies_;
  std::vector<Observed> observed_;
  std::vector<Forking> new_forking_;
  RefusalLog waits_;  // What cannot start yet.
  // The loop's thread only.
  WorkerState state_;
  std::map<Fence, int> pidfds_;
  std::vector<Forking> forking_;
  std::map<Fence, std::chrono::steady_clock::time_point> ended_;  // When, as this daemon saw.
  std::chrono::steady_clock::time_point pumped_at_{};
  std::chrono::steady_clock::time_point weighed_at_{};
  std::chrono::steady_clock::time_point watched_at_{};
  // Freezes and thaws take minutes at worst: launches do not wait for them. Stops before the rest.
  IoPool freezes_;
};

}  // namespace rt::worker
