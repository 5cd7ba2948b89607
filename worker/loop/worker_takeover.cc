// What a daemon finds when it starts: attempts of the daemons before it, running or ended, and
// perhaps one that the last of them hung in.
#include <unistd.h>

#include <csignal>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "worker/loop/worker_loop.h"

namespace rt::worker {

void WorkerLoop::Start(const std::optional<HungActivity>& hung) {
  parts_.activity.NextRound(::gettid());
  const bool is_culprit = hung && hung->part != ActivityKind::kNone;
  const Launcher::Found* culprit = nullptr;
  const std::vector<Launcher::Found> all = parts_.launcher.Recover();
  for (const Launcher::Found& found : all) {
    if (is_culprit && found.body.fence == hung->fence) culprit = &found;
    else Adopt(found);
  }
  if (is_culprit) Condemn(*hung, culprit);
  thread_ = std::thread([this] { Run(); });
}

void WorkerLoop::Adopt(const Launcher::Found& found) {
  const Fence& fence = found.body.fence;
  const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kTakeover);
  ReachFailpoint("worker.start.before_adopt");
  auto live = Open(found.body);
  if (!live.ok()) {
    RT_LOG(kError) << rt::ToString(fence) << ": cannot take over: " << MessageOf(live.status());
    parts_.launcher.Signal(fence, true);
    return;
  }
  RT_LOG(kInfo) << rt::ToString(fence) << ": taken over, " << (found.exit ? "ended" : "running");
  parts_.attempts.Add(*live);
  HoldGpus(found.body, true);
  parts_.pushes.Recover(*live);
  const uint32_t port = found.body.keeps_port ? found.body.port : 0;
  const FreezeNote note = ReadFreezeNote((*live)->dir().freeze());
  // In the middle of a freeze or a thaw it may have memory of its gpus.
  if (note.step == FreezeStep::kFrozen) parts_.gpus.SetFrozen(fence, true);
  Feed(input::Recovered{fence, found.pid, found.exit, port, (*live)->said_suspended(),
                        (*live)->said_orphaned(), note.step, note.round});
  absl::Status listening = parts_.socket.Listen(*live, parts_.launcher.SocketOf(fence));
  if (!listening.ok()) {
    RT_LOG(kError) << MessageOf(listening);
    (*live)->NoteListenerClosed();
  }
  if (found.exit) {
    NoteEnd(fence, *found.exit);
  } else {
    Watch(fence);
  }
  ReachFailpoint("worker.start.after_adopt");
}

// Its rows are sent, unless it cannot even be opened. Neither its output nor its log is looked at,
// and its checkpoints that are not in the store are given up.
void WorkerLoop::Condemn(const HungActivity& hung, const Launcher::Found* found) {
  const Fence& fence = hung.fence;
  RT_LOG(kWarning) << rt::ToString(fence) << ": ended: " << hung.Reason();
  uint64_t last_seq = 0;
  if (found != nullptr) {
    parts_.launcher.Signal(fence, true);
    LaunchBody body = found->body;
    body.report_regex.clear();
    body.log_patterns.clear();
    if (hung.part != ActivityKind::kTakeover) {
      const LoopActivity::Scope activity(parts_.activity, fence, ActivityKind::kTakeover);
      if (auto live = Open(body); live.ok()) {
        (*live)->NoteListenerClosed();
        parts_.attempts.Add(*live);
        last_seq = (*live)->spool().last_seq();
        (*live)->Flush();
      }
    }
  }
  Feed(input::Recovered{.fence = fence,
                        .exit = ExitFacts{.signal = SIGKILL, .reason = hung.Reason()}});
  Feed(input::Drained{fence, last_seq, {}});
}

}  // namespace rt::worker
