// The loop in which everything meets. One core thread takes inputs in batches, runs Step, hands the
// records to the journal, and lets effects out when they are durable: answers, replies to parked
// Syncs, reads. Thread-safe to call from anywhere; callbacks run on a thread of the loop's and must
// not block (they finish a gRPC reactor or set a promise).
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/base/limits.h"
#include "head/core/core.h"
#include "head/core/desired.h"
#include "head/journal/journal.h"
#include "head/loop/machine_watch.h"
#include "head/loop/members.h"

namespace rt {

// What a parked Sync is answered with.
struct SyncReply {
  absl::Status status;  // NotFound: the node is unknown or gone.
  uint64_t epoch = 0;
  uint64_t version = 0;
  std::vector<DesiredAttempt> desired;
  std::vector<LaunchSpec> bodies;  // For desired attempts that the request did not list.
  Millis hold = 0;
  uint64_t durable_seq = 0;
  Millis now = 0;  // The head's clock, by which deadlines are.
  // The newest call of the node's newest daemon that this head has heard.
  uint64_t newest_incarnation = 0;
  uint64_t newest_seq = 0;
  std::vector<ClearedGpu> cleared_gpus;
  std::vector<FaultyGpu> faulty_gpus;
};

// What the worker had when it sent a Sync, beside what the core is told.
struct SyncSeen {
  uint64_t version = 0;   // Of the last reply that it took.
  uint64_t open_seq = 0;  // Of its older Sync that still waits for an answer; 0: none does.
};

class HeadLoop {
 public:
  struct Options {
    Millis tick_interval = limits::kTickInterval;
    uint64_t snapshot_every_events = limits::kSnapshotEveryEvents;
    uint64_t inputs_per_check = 10'000;  // Of CheckInvariants: a pass over everything.
    std::function<Millis()> wall_clock;  // Tests replace it; the default is the real one.
    std::function<void(absl::Status)> on_fatal;  // Default: log and abort.
  };
  using AnswerFn = std::function<void(absl::Status, const Answer&)>;
  using SyncFn = std::function<void(SyncReply)>;

  // Replays snapshot and tail into a fresh core, posts StartHead, returns when that is durable.
  // `followed`: the state at some record of this very journal, which saves the replay up to there.
  static absl::StatusOr<std::unique_ptr<HeadLoop>> Start(Journal& journal, input::StartHead start,
                                                         Options options,
                                                         std::optional<World> followed = {});
  virtual ~HeadLoop() = default;  // Stops the core thread; waits for batches in flight.

  // RESOURCE_EXHAUSTED (through the callback, at once) when the inbox is full.
  virtual void Post(Input input, AnswerFn done) = 0;
  // An up-to-date worker's call is parked for up to the hold. One that comes beside an older call
  // releases that: it takes the news along, and the new one is parked in its place.
  virtual void PostSync(input::Sync sync, SyncSeen seen, SyncFn done) = 0;
  // Answers the node's parked Sync now, for a reason outside the core (a log request).
  virtual void Wake(NodeId node) = 0;
  // Runs `read` on the core thread; `done` follows when everything it saw is durable.
  virtual void Query(std::function<void(const Core&)> read,
                     std::function<void(absl::Status)> done) = 0;
  // `changed` is called after every durable batch with its last seq (for waits and sinks).
  virtual void OnDurable(std::function<void(uint64_t durable_seq)> changed) = 0;
  virtual const Members& members() const = 0;
  virtual MachineWatch& machine_watch() = 0;
  virtual uint64_t epoch() const = 0;  // This head's.
  virtual uint64_t durable_seq() const = 0;
  virtual std::optional<uint64_t> shipped_seq() const = 0;  // As Journal's.
  virtual uint64_t bytes_synced() const = 0;  // Since this process opened the journal.
};

}  // namespace rt
