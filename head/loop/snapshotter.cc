#include "head/loop/snapshotter.h"

#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/journal/codec.h"
#include "head/journal/replay.h"

namespace rt {
namespace {

// Snapshots are in no hurry; the core thread is.
constexpr int kNice = 10;

}  // namespace

Snapshotter::~Snapshotter() {
  if (thread_.joinable()) thread_.join();
}

void Snapshotter::Consider(uint64_t durable_seq) {
  if (durable_seq - last_seq_ < every_events_ || running_) return;
  if (thread_.joinable()) thread_.join();
  last_seq_ = durable_seq;
  running_ = true;
  thread_ = std::thread([this, durable_seq] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // Of this thread.
    absl::Status status = Write(durable_seq);
    if (!status.ok()) {
      RT_LOG(kWarning) << "snapshot: " << MessageOf(status);
    }
    running_ = false;
  });
}

absl::Status Snapshotter::Write(uint64_t seq) {
  RT_ASSIGN_OR_RETURN(Replayed replayed, Replay(journal_, seq));
  const State& state = replayed.world.state;
  RT_RETURN_IF_ERROR(FailAt("head.snapshot.before_write"));
  return journal_.WriteSnapshot({state.seq, EncodeState(state)});
}

}  // namespace rt
