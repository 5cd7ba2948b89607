// The head as a process: the production core, a loop that takes inputs in batches, and a journal
// with several appends in flight. Nothing leaves before it is durable. A crash keeps some prefix
// of the batches in flight; what comes back is a replay, which must equal what the state was at
// that seq.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "head/core/answer_checker.h"
#include "head/core/core.h"
#include "head/core/desired.h"
#include "tests/sim/auditor.h"
#include "tests/sim/lane_host.h"
#include "tests/sim/sim.h"

namespace rt::sim {

struct SyncReply {
  bool known = true;  // False: NotFound, the node must join anew.
  uint64_t epoch = 0;
  uint64_t version = 0;
  uint64_t durable_seq = 0;
  std::vector<DesiredAttempt> desired;
  std::vector<LaunchSpec> bodies;
  std::vector<ClearedGpu> cleared_gpus = {};
  std::vector<FaultyGpu> faulty_gpus = {};
};

class HeadHost {
 public:
  using AnswerFn = std::function<void(const absl::Status&, const Answer&)>;
  using SyncFn = std::function<void(const SyncReply&)>;

  HeadHost(Sim& sim, Auditor& auditor)
      : sim_(sim), auditor_(auditor),
        lane_(sim, [this](Input answered) { Post(std::move(answered), {}); }) {}

  void Start();
  void SetPools(std::vector<PoolSpec> pools, std::optional<uint32_t> max_workers) {
    pools_ = std::move(pools);
    max_workers_ = max_workers;
  }
  // What the configuration can bring; without it, work that no node could hold yet is refused.
  void SetNodeTypes(std::vector<Resources> types) { node_types_ = std::move(types); }
  // Dropped when the head is down.
  void Post(Input input, AnswerFn done);
  // `seen`: the version of the last reply that the worker took.
  void PostSync(input::Sync sync, uint64_t seen, SyncFn done);
  void Crash();
  void Stop(Millis span);  // SIGSTOP for this long.
  // A standby takes the head's place: what was acknowledged lies in a log that both can reach. The
  // old head goes on where it still hears somebody, until it would write and finds itself fenced.
  void TakeOver();
  // The log and its snapshot give the state that runs, once nothing is in flight. Returns its
  // canonical bytes.
  std::string CheckReplay();
  bool up() const { return up_; }
  size_t in_flight() const { return in_flight_.size(); }  // Batches that are not durable yet.
  const Core& core() const { return core_; }
  // The wall clock when it started, then a steady one.
  Millis Now() const { return shown_at_start_ + (sim_.now - started_at_); }
  // The durable records after `seq`.
  std::vector<Record> LogAfter(uint64_t seq) const {
    return {log_.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(seq, log_.size())),
            log_.end()};
  }

 private:
  struct Waiting {
    Input input;
    AnswerFn done;
    SyncFn sync_done;
    uint64_t seen_version = 0;
  };
  struct InFlight {
    std::vector<Record> records;
    std::vector<RowBatch> rows;
    std::vector<Sim::Effect> effects;
    std::string dump;  // Of the state after it, for one batch in kDumpEvery.
    Millis durable_at = 0;
  };
  struct Parked {
    uint64_t sync_seq = 0;
    std::set<Fence> listed;
    Millis until = 0;
    SyncFn done;
    uint64_t seen_epoch = 0;
    uint64_t seen_version = 0;
  };

  struct OldHead {
    Core core;
    Millis clock_behind = 0;  // Of its clock against virtual time.
    Millis until = 0;         // When it would have looked for its fence.
  };

  // Whether the call went to the old head, which answered it or was lost with it.
  bool TakenByOld(const Waiting& waiting);
  void Enqueue(Waiting waiting);
  void ScheduleDrain(Millis delay);
  void Drain();
  void Handle(Waiting& waiting, InFlight& batch);
  void StepInto(const Input& input, InFlight& batch, Outcome& outcome);
  void AnswerSyncs(InFlight& batch);
  void Append(InFlight batch);
  void Complete();
  void Keep(InFlight& batch);
  void Replay();
  void TickLater();
  void FlushSinksLater();

  Sim& sim_;
  Auditor& auditor_;
  AnswerChecker answers_;  // Of the durable records.
  LaneHost lane_;
  Core core_;
  std::vector<PoolSpec> pools_;
  std::optional<uint32_t> max_workers_;  // Of all pools together.
  std::vector<Resources> node_types_;
  bool up_ = false;
  uint64_t life_ = 0;
  Millis started_at_ = 0;
  Millis shown_at_start_ = 0;
  Millis stopped_until_ = 0;
  bool drain_scheduled_ = false;
  std::deque<Waiting> inbox_;
  std::deque<InFlight> in_flight_;
  std::map<NodeId, Parked> parked_;
  std::map<NodeId, uint64_t> versions_;  // Rise when what a node is to do may have changed.
  Millis wall_skew_ = 0;  // Of the machine's wall clock against virtual time.
  std::optional<OldHead> old_;
  // The disk.
  std::vector<Record> log_;
  std::string dump_;  // The newest of those, which the log must give again at this seq.
  uint64_t dump_seq_ = 0;
  uint64_t appended_ = 0;
  std::optional<State> snapshot_;
};

}  // namespace rt::sim
