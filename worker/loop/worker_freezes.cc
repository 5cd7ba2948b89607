// What the worker loop does to freeze an attempt and to let it continue (worker/launch/freezer.h).
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "worker/launch/shim_file.h"
#include "worker/loop/worker_loop.h"

namespace rt::worker {
namespace {

// A program hears that it continues before it does, so that it counts no time of its freeze.
constexpr Millis kTellMost = 1'000;
constexpr int kTellLookUs = 2'000;

}  // namespace

FreezeJob WorkerLoop::FreezeJobOf(const LiveAttempt& live) const {
  const GpuUse use = parts_.gpus.UseOf(live.fence());
  const auto program = ReadShimFile(live.dir().shim()).program;
  return {.program = program.value_or(ProcessIdentity{}),
          .token = live.body().token,
          .note = live.dir().freeze(),
          .has_gpus = !live.body().gpu_uuids.empty(),
          .gpu_hang = parts_.gpus.HangOf(live.fence()),
          .gpu_users = parts_.gpus.ProcessesOn(live.fence()),
          .gpu_memory = use.memory_peak * static_cast<Bytes>(live.body().gpu_uuids.size()),
          .memory_limit = live.body().limits().memory};
}

// One that is not connected cannot be asked, and is frozen as it is.
void WorkerLoop::Perform(const action::Save& save) {
  const Fence fence = save.fence;
  auto live = parts_.attempts.Find(fence);
  const bool hears =
      live != nullptr && live->NoteSave([this, fence] { Post(input::Saved{fence}); });
  if (!hears) return Post(input::Saved{fence});
  parts_.socket.Wake();
}

void WorkerLoop::Perform(const action::Freeze& freeze) {
  auto live = parts_.attempts.Find(freeze.fence);
  if (live == nullptr) return;
  live->NoteSaveOver();
  auto job = [this, live, round = freeze.round] {
    FreezeJob what = FreezeJobOf(*live);
    what.round = round;
    const Millis began = SteadyClock();
    const FreezeEnd end = freezer_.Freeze(what);
    RT_LOG(kInfo) << rt::ToString(live->fence())
                  << (end.why.empty() ? ": frozen" : ": not frozen: " + EscapeControl(end.why))
                  << " (" << SteadyClock() - began << " ms)";
    if (end.why.empty()) parts_.gpus.SetFrozen(live->fence(), true);
    ReachFailpoint("worker.freeze.before_report");
    Post(input::Frozen{live->fence(), round, end.why, end.is_broken});
  };
  if (!freezes_.TrySubmit(std::move(job)))
    Post(input::Frozen{freeze.fence, freeze.round, "its node freezes too many at once"});
}

void WorkerLoop::Perform(const action::Thaw& thaw) {
  auto live = parts_.attempts.Find(thaw.fence);
  if (live == nullptr) return;
  auto job = [this, live] {
    const FreezeJob what = FreezeJobOf(*live);
    const FreezeNote note = ReadFreezeNote(what.note);
    const Millis now = note.since == 0 ? 0 : std::max<Millis>(0, WallClock() - note.since);
    live->NoteThaw(note.total + now);
    parts_.socket.Wake();
    for (const Millis until = SteadyClock() + kTellMost;
         !live->is_thaw_told() && SteadyClock() < until;)
      ::usleep(kTellLookUs);
    parts_.gpus.SetFrozen(live->fence(), false);
    const Millis began = SteadyClock();
    const FreezeEnd end = freezer_.Thaw(what);
    RT_LOG(kInfo) << rt::ToString(live->fence()) << ": "
                  << (end.why.empty() ? "continues" : EscapeControl(end.why)) << " ("
                  << SteadyClock() - began << " ms)";
    live->ExcuseSilence();
    ReachFailpoint("worker.thaw.before_report");
    Post(input::Thawed{live->fence(), end.why});
  };
  if (!freezes_.TrySubmit(std::move(job)))
    Post(input::Thawed{thaw.fence, "its node thaws too many at once", /*transient=*/true});
}

}  // namespace rt::worker
