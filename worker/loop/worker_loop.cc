#include "worker/loop/worker_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "worker/launch/node_rules.h"
#include "worker/limits/memory_watch.h"

namespace rt::worker {
namespace {

constexpr int kBusyMs = 20;  // While attempts live: standard output is looked at this often.
constexpr int kIdleMs = 500;
constexpr int kWeighMs = 200;   // The memory of attempts is looked at this often.
constexpr int kAwayMs = 2'000;  // A pause of this thread that says something of the machine.

bool KeepsOutputs(const Fence& fence) { return RulesOf(fence.attempt.owner).keeps_outputs; }

}  // namespace

WorkerLoop::WorkerLoop(LoopParts parts, std::function<void(bool)> on_row,
                       std::function<void(bool)> on_change)
    : parts_(parts), on_row_(std::move(on_row)), on_change_(std::move(on_change)),
      freezer_(parts.launcher.bin_dir()), freezes_(2, 2 * limits::kFrozenPerNode) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

WorkerLoop::~WorkerLoop() {
  Stop();
  for (auto& [fence, fd] : pidfds_) ::close(fd);
  for (const Forking& one : forking_) ::close(one.connection);
  for (const Forking& one : new_forking_) ::close(one.connection);
  ::close(wake_);
}

void WorkerLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

void WorkerLoop::Wake() {
  uint64_t one = 1;
  ssize_t ignored = ::write(wake_, &one, sizeof one);
  (void)ignored;
}

void WorkerLoop::Post(WorkerInput input) {
  {
    std::lock_guard lock(mutex_);
    inputs_.push_back(std::move(input));
  }
  Wake();
}

void WorkerLoop::Ask(std::function<void()> alive) {
  {
    std::lock_guard lock(mutex_);
    asked_.push_back(std::move(alive));
  }
  Wake();
}

// Before the loop's turn, because a program waits for each verdict; only who is to pause hears that
// first, and so ends at the row that was decided.
void WorkerLoop::SendDecided(const input::Desired& desired, bool suspended) {
  bool decided = false;
  for (const input::DesiredAttempt& one : desired.attempts) {
    if (one.decided_seq == 0 || one.suspend != suspended) continue;
    auto live = parts_.attempts.Find(one.fence);
    decided = (live != nullptr && live->NoteDecided(one.decided_seq)) || decided;
  }
  if (decided) parts_.socket.Wake();
}

void WorkerLoop::PostDesired(input::Desired desired, std::vector<LaunchBody> bodies) {
  parts_.attempts.NoteHead(desired.epoch);
  SendDecided(desired, false);
  for (const input::DesiredAttempt& one : desired.attempts) {
    auto live = parts_.attempts.Find(one.fence);
    if (live == nullptr) continue;
    if (live->body().world_size > 1) live->NoteComplete(one.complete_seq);
    live->profile().NoteRecorded(one.profile_seq);
  }
  {
    std::lock_guard lock(mutex_);
    // The first one stays: it has its token by the time a second reply repeats it.
    for (LaunchBody& body : bodies) bodies_.try_emplace(body.fence, std::move(body));
    inputs_.push_back(std::move(desired));
  }
  Wake();
}

std::vector<Observed> WorkerLoop::observed() const {
  std::vector<Observed> observed;
  {
    std::lock_guard lock(mutex_);
    observed = observed_;
  }
  for (Observed& one : observed) {
    const auto live = parts_.attempts.Find(one.fence);
    if (live != nullptr) one.acked_seq = live->spool().acked_seq();
    one.gpu = parts_.gpus.UseOf(one.fence);
    parts_.launcher.preflights().AddLinks(one);
    if (one.phase != Observed::Phase::kExited) continue;
    one.gpu_fault = parts_.gpus.FaultOf(one.fence);
  }
  return observed;
}

absl::StatusOr<std::shared_ptr<LiveAttempt>> WorkerLoop::Open(const LaunchBody& body) {
  return LiveAttempt::Open(
      body, parts_.launcher.DirOf(body.fence),
      {.on_row = on_row_,
       .on_closed = [this] { Wake(); },
       .gpu_use = [this](const Fence& fence) { return parts_.gpus.UseOf(fence); }});
}

void WorkerLoop::Run() {
  for (;;) {
    parts_.activity.NextRound(::gettid());
    WaitForWork();
    TakeForked();
    TakeExits();
    std::deque<WorkerInput> inputs;
    std::vector<std::function<void()>> asked;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      inputs.swap(inputs_);
      asked.swap(asked_);
    }
    for (const auto& alive : asked) alive();
    for (const WorkerInput& input : inputs) {
      Feed(input);
      if (const auto* desired = std::get_if<input::Desired>(&input)) SendDecided(*desired, true);
    }
    PumpRunning();
    WatchMemory();
    WatchProgress();
    PumpEnded();
    if (!state_.attempts.empty()) Feed(input::Tick{});
    parts_.launcher.warm().Tick(WallClock());
  }
}

void WorkerLoop::WaitForWork() {
  std::vector<pollfd> fds = {{wake_, POLLIN, 0}};
  for (const auto& [fence, fd] : pidfds_) fds.push_back({fd, POLLIN, 0});
  for (const Forking& one : forking_) fds.push_back({one.connection, POLLIN, 0});
  ::poll(fds.data(), fds.size(), state_.attempts.empty() ? kIdleMs : kBusyMs);
  uint64_t drained = 0;
  ssize_t ignored = ::read(wake_, &drained, sizeof drained);
  (void)ignored;
}

void WorkerLoop::TakeForked() {
  {
    std::lock_guard lock(mutex_);
    for (Forking& one : new_forking_) forking_.push_back(std::move(one));
    new_forking_.clear();
  }
  std::erase_if(forking_, [this](const Forking& one) { return TakeReply(one); });
  for (Forking& one : forking_) {
    if (WallClock() < one.wait_until) continue;
    WarmServers::Cancel(one.connection);
    one.wait_until += limits::kWarmWait;
  }
}

bool WorkerLoop::TakeReply(const Forking& forking) {
  const Fence& fence = forking.body.fence;
  std::optional<WarmServers::Reply> reply = WarmServers::ReadReply(forking.connection);
  if (!reply) return false;
  if (reply->pid != 0) {
    pidfds_[fence] = forking.connection;
    Feed(input::Launched{fence, reply->pid});
    return true;
  }
  ::close(forking.connection);
  if (reply->ended && parts_.launcher.WasForked(fence)) {
    NoteEnd(fence, parts_.launcher.ReadExit(fence, true));
    return true;
  }
  parts_.launcher.warm().Release(fence);
  if (reply->refused) {
    parts_.launcher.warm().Refuse(forking.body, reply->why);
  } else {
    RT_LOG(kInfo) << rt::ToString(fence) << ": cold start: "
                  << (reply->ended ? "the group of its warm-start server was killed" : reply->why);
  }
  Start(forking.body, false);
  return true;
}

void WorkerLoop::TakeExits() {
  for (auto at = pidfds_.begin(); at != pidfds_.end();) {
    pollfd ready{at->second, POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) {
      ++at;
      continue;
    }
    ::close(at->second);
    const Fence fence = at->first;
    const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kEnd);
    at = pidfds_.erase(at);
    const ExitFacts exit = parts_.launcher.ReadExit(fence, true);
    ReachFailpoint("worker.exit.after_seen");
    NoteEnd(fence, exit);
  }
}

void WorkerLoop::Watch(const Fence& fence) {
  if (pidfds_.contains(fence)) return;  // Forked: the connection that said so lasts as long.
  int fd = parts_.launcher.Watch(fence);
  if (fd >= 0) {
    pidfds_[fence] = fd;
  } else {
    NoteEnd(fence, parts_.launcher.ReadExit(fence, true));
  }
}

void WorkerLoop::HoldGpus(const LaunchBody& body, bool is_adopted) {
  parts_.gpus.Begin({.fence = body.fence,
                     .uuids = body.gpu_uuids,
                     .units = body.resources.gpu,
                     .token = body.token,
                     .is_adopted = is_adopted});
}

void WorkerLoop::NoteEnd(const Fence& fence, const ExitFacts& exit) {
  ended_[fence] = std::chrono::steady_clock::now();
  parts_.gpus.End(fence);
  parts_.socket.Finish(fence);
  Feed(input::Exited{fence, exit});
}

void WorkerLoop::Feed(const WorkerInput& input) {
  std::vector<Action> actions = Step(state_, input, WallClock());
  if (const auto* launched = std::get_if<input::Launched>(&input)) Watch(launched->fence);
  for (const Action& action : actions)
    if (const auto* forget = std::get_if<action::Forget>(&action);
        forget != nullptr && KeepsOutputs(forget->fence))
      parts_.outputs.Expect(forget->fence);  // From here on it is observed no more.
  {
    std::lock_guard lock(mutex_);
    observed_ = ObservedList(state_);
  }
  for (const Action& action : actions) {
    std::visit(
        [this](const auto& one) {
          if constexpr (requires { one.fence; }) {
            const LoopActivity::Scope activity(parts_.activity, one.fence, ActivityKind::kAct);
            Perform(one);
          } else {
            Perform(one);
          }
        },
        action);
  }
}

void WorkerLoop::Perform(const action::Prepare& prepare) {
  LaunchBody body;
  {
    std::lock_guard lock(mutex_);
    body = bodies_.at(prepare.fence);
  }
  auto job = [this, body]() mutable {
    absl::Status prepared = absl::UnavailableError("what ended before has outputs to be kept");
    if (!parts_.outputs.IsFull()) prepared = parts_.launcher.Prepare(body);
    {
      std::lock_guard lock(mutex_);
      if (auto kept = bodies_.find(body.fence); kept != bodies_.end()) kept->second = body;
    }
    if (IsTransient(prepared)) SayWaits(body.fence, prepared);
    const uint32_t kept_port = prepared.ok() && body.keeps_port ? body.port : 0;
    Post(input::Prepared{body.fence, prepared.ok(), IsTransient(prepared), MessageOf(prepared),
                         kept_port, body.broken_checkpoint});
  };
  if (!parts_.pool.TrySubmit(std::move(job))) {
    Post(input::Prepared{prepare.fence, false, true, "too much at once"});
  }
}

// It is tried again, for as long as the head wants it to run here.
void WorkerLoop::SayWaits(const Fence& fence, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  const uint64_t count = waits_.Note(SteadyClock());
  if (count == 0) return;
  const std::string hint = HintOf(why);
  RT_LOG(kWarning) << rt::ToString(fence) << " cannot start yet: " << EscapeControl(MessageOf(why))
                   << (hint.empty() ? "" : "; " + hint) << " (" << count << " since the last time)";
}

void WorkerLoop::Perform(const action::Launch& launch) {
  const Fence fence = launch.fence;
  const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kStart);
  LaunchBody body;
  {
    std::lock_guard lock(mutex_);
    body = bodies_.at(fence);
  }
  auto live = Open(body);
  absl::Status ready = live.status();
  if (ready.ok()) ready = parts_.socket.Listen(*live, parts_.launcher.SocketOf(fence));
  if (!ready.ok()) {
    if (live.ok()) {
      (*live)->NoteListenerClosed();
      parts_.attempts.Add(*live);
    }
    return Post(input::Exited{fence, {.launch_failed = true, .reason = MessageOf(ready)}});
  }
  parts_.attempts.Add(*live);
  HoldGpus(body, false);
  Start(std::move(body), true);
}

void WorkerLoop::Start(LaunchBody body, bool may_be_warm) {
  const Fence fence = body.fence;
  auto job = [this, may_be_warm, body = std::move(body)] {
    if (!Preflights::IsFor(body)) return LaunchNow(body, may_be_warm);
    const std::string report = parts_.launcher.DirOf(body.fence).path + "/preflight.json";
    parts_.launcher.preflights().Ask(body, report, [=, this](const PreflightResult& found) {
      if (found.is_well()) LaunchNow(body, may_be_warm);
      else EndPreflight(body.fence, found);
    });
  };
  if (!parts_.pool.TrySubmit(std::move(job))) {
    Post(input::Exited{fence, {.witnessed = false, .reason = "the worker is overloaded"}});
  }
}

void WorkerLoop::LaunchNow(const LaunchBody& body, bool may_be_warm) {
  auto started = parts_.launcher.Launch(body, may_be_warm);
  if (started.ok() && started->warm < 0) return Post(input::Launched{body.fence, started->pid});
  if (started.ok()) {
    std::lock_guard lock(mutex_);
    new_forking_.push_back({body, started->warm, WallClock() + limits::kWarmWait});
    return Wake();
  }
  const std::string why = MessageOf(started.status());
  Post(input::Exited{body.fence, {.exit_code = 127, .launch_failed = true, .reason = why}});
}

// The fault of a gpu, also of one on another node of the gang, and a slow link make this the
// machine's failure (Observed::gpu_fault). What could not be tested, or is not quarantined, is
// Observed::untested: the head chooses another place.
void WorkerLoop::EndPreflight(const Fence& fence, const PreflightResult& found) {
  std::string why = found.error.empty() ? found.elsewhere : found.error;
  bool is_named = !found.elsewhere.empty();
  if (!found.elsewhere.empty()) parts_.gpus.BlameMachine(fence, "preflight: " + found.elsewhere);
  for (const PreflightFault& fault : found.faults) {
    const bool is_known = parts_.gpus.Condemn(fault.uuid, "preflight: " + fault.what);
    is_named = is_named || is_known;
    if (!why.empty()) why += "; ";
    why += "gpu " + fault.uuid + ": " + fault.what;
    if (!is_known) why += " (it cannot be quarantined, because NVML does not list it)";
  }
  Post(input::Exited{fence,
                     {.exit_code = 127,
                      .launch_failed = true,
                      .reason = "preflight: " + why,
                      .untested = !is_named}});
}

void WorkerLoop::Perform(const action::Signal& signal) {
  ReachFailpoint("worker.signal.before_signal");
  if (auto live = parts_.attempts.Find(signal.fence)) {
    live->NoteStop("asked to stop");
    if (signal.suspended && !live->said_suspended()) live->SaySuspended();
  }
  parts_.launcher.Signal(signal.fence, signal.kill);
}

// What speaks on the socket, or listens for SIGUSR2, saves by itself; the rest cannot be told.
void WorkerLoop::Perform(const action::Suspend& suspend) {
  const Fence fence = suspend.fence;
  auto live = parts_.attempts.Find(fence);
  if (live != nullptr && state_.attempts.at(fence).orphaned) live->SayOrphaned();
  const bool hears =
      live != nullptr && live->NoteSuspend([this, fence] { Post(input::Saved{fence}); });
  if (parts_.launcher.Notify(fence) || hears) {
    parts_.socket.Wake();
    return;
  }
  if (fence.rank == 0) Post(input::Saved{fence});  // The others wait for rank 0, which may save.
}

// Who can be told neither way is left alone.
void WorkerLoop::Perform(const action::Announce& announce) {
  const Fence fence = announce.fence;
  auto live = parts_.attempts.Find(fence);
  if (live == nullptr) return;
  live->NoteEviction(announce.by, [this, fence] { Post(input::Saved{fence}); });
  parts_.launcher.Notify(fence);
  parts_.socket.Wake();
}

void WorkerLoop::Perform(const action::Recall& recall) {
  if (auto live = parts_.attempts.Find(recall.fence)) live->NoteEvictionCancelled();
  parts_.socket.Wake();
}

void WorkerLoop::Perform(const action::Dump& dump) {
  auto live = parts_.attempts.Find(dump.fence);
  if (live != nullptr) parts_.launcher.AskForStacks(dump.fence, live->body().watchdog_dump);
}

void WorkerLoop::Perform(const action::Forget& forget) {
  ReachFailpoint("worker.forget.before_close");
  parts_.socket.Close(forget.fence);
  parts_.pushes.Forget(forget.fence);
  if (auto live = parts_.attempts.Find(forget.fence)) {
    live->spool().Close();
    if (KeepsOutputs(forget.fence))
      parts_.outputs.Take(live->body(), live->dir(), live->complete_seq());
  }
  parts_.attempts.Remove(forget.fence);
  parts_.gpus.Forget(forget.fence);
  parts_.launcher.preflights().Forget(forget.fence);
  ended_.erase(forget.fence);
  {
    std::lock_guard lock(mutex_);
    bodies_.erase(forget.fence);
  }
  parts_.launcher.Forget(forget.fence);
  parts_.outputs.Keep(forget.fence);
}

void WorkerLoop::Perform(const action::SyncNow&) { on_change_(true); }
void WorkerLoop::Perform(const action::SyncSoon&) { on_change_(false); }

// At its own pace: this thread wakes for many reasons.
void WorkerLoop::PumpRunning() {
  const auto now = std::chrono::steady_clock::now();
  if (now - pumped_at_ < std::chrono::milliseconds(kBusyMs / 2)) return;
  pumped_at_ = now;
  for (const auto& [fence, attempt] : state_.attempts) {
    if (attempt.stage != Stage::kRunning) continue;
    const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kOutput);
    if (auto live = parts_.attempts.Find(fence)) live->PumpStdout(false);
  }
}

// Of the attempts that asked for memory where no cgroup holds them to it.
void WorkerLoop::WatchMemory() {
  const auto now = std::chrono::steady_clock::now();
  if (now - weighed_at_ < std::chrono::milliseconds(kWeighMs)) return;
  weighed_at_ = now;
  std::optional<ProcessTable> table;
  for (const auto& [fence, attempt] : state_.attempts) {
    auto live = attempt.stage == Stage::kRunning ? parts_.attempts.Find(fence) : nullptr;
    const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kAct);
    const Bytes limit = live == nullptr ? 0 : live->body().limits().memory;
    if (limit == 0 || parts_.launcher.IsHeld(fence)) continue;
    if (!table) table = ProcessTable::Read();
    Bytes used = 0;
    if (!IsBeyond(*table, static_cast<pid_t>(attempt.pid), limit, used)) continue;
    const std::string why = BeyondMemory(used, limit);
    RT_LOG(kInfo) << rt::ToString(fence) << ": killed: " << why;
    parts_.launcher.EndForMemory(fence, why);
  }
}

// After a pause of this thread the reports of that time may lie in the sockets.
void WorkerLoop::WatchProgress() {
  const auto now = std::chrono::steady_clock::now();
  const auto passed = now - watched_at_;
  if (passed < std::chrono::milliseconds(kWeighMs)) return;
  watched_at_ = now;
  const bool was_away = passed > std::chrono::milliseconds(kAwayMs);
  std::map<Fence, std::string> hung;
  for (const auto& [fence, attempt] : state_.attempts) {
    const bool runs = attempt.stage == Stage::kRunning && !IsStopped(attempt);
    auto live = runs ? parts_.attempts.Find(fence) : nullptr;
    if (live == nullptr) continue;
    const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kAct);
    if (was_away) live->ExcuseSilence();
    if (auto why = live->WhyHung(parts_.pushes.IsFull(fence))) hung[fence] = *why;
  }
  for (const auto& [fence, why] : hung) {
    if (!state_.attempts.at(fence).hung_at) {
      RT_LOG(kInfo) << rt::ToString(fence) << ": " << why;
    }
    Feed(input::Hung{fence, why});
  }
}

}  // namespace rt::worker
