// Checkpoints on their way from a trial to the store: taken out of the trial's hands into the
// attempt's run directory, pushed and committed by threads of this object, oldest first within an
// attempt. Of one attempt one is being pushed and one may wait: then it is full. A taken checkpoint
// outlives the daemon. Between attempts the oldest goes first; one thread pushes no large ones:
//   <run directory>/saved/<seq>/{row.json, tree/}   taken; <seq>.part: incomplete
//   <run directory>/saved/<seq>/held                 its tree moves, or moved, to LocalTrees
//   <run directory>/saved/done                       the newest seq that is committed
// A committed checkpoint stays on the node within bounds (LocalTrees), for the next restore here.
// Where a checkpoint counts before the store has it (durable_after; a draining node), this node and
// another one make replicas first, and ReplicaUploader uploads it later.
// Owns its threads. Public functions are thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/limits.h"
#include "common/cas/tree.h"
#include "worker/checkpoint/replica_uploader.h"
#include "worker/session/checkpoint_pushes.h"
#include "worker/session/head_calls.h"
#include "worker/session/peer_replicas.h"
#include "worker/trees/local_trees.h"

namespace rt::worker {

struct PushBounds {
  Bytes large = limits::kLargePushBytes;
};

class CheckpointPusher : public CheckpointPushes {
 public:
  // `on_done`: an attempt has less on its way.
  // `peers`: null where no other node can make replicas.
  CheckpointPusher(BlobStore& store, HeadCalls& head, LocalTrees& trees,
                   std::function<void()> on_done, PeerReplicas* peers = nullptr,
                   PushBounds bounds = {});
  ~CheckpointPusher() override;
  void Start();
  // Soon: what is being pushed is broken off, and pushed again by the next daemon.
  void Stop();

  absl::Status Take(std::shared_ptr<LiveAttempt> attempt, const SpoolRow& row,
                    const CheckpointFiles& files, Done done) override;
  void Recover(std::shared_ptr<LiveAttempt> attempt) override;
  bool Has(const Fence& fence) const override;
  bool HasUnstored(const Owner& owner) const override { return uploader_.HasOf(owner); }
  bool IsFull(const Fence& fence) const override;
  void Forget(const Fence& fence) override;
  ReplicaUploader& uploader() { return uploader_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Push {
    std::shared_ptr<LiveAttempt> attempt;
    SpoolRow row;
    std::string directory;
    Done done;
    std::string reported;  // OutputPathOf what the trial still has of it; or empty.
    StoredTree stored;
    timespec stored_at{};  // Its files were read after that.
    SafeCheckpoint safe;   // As it is committed.
    Time safe_at;
    bool may_be_replica = true;  // Not once that has failed.
    bool was_named = false;      // A commit may have named its replicas.
    // While the store has no space for it.
    Millis pause = 0;
    Time not_before;
    Time said_at;
    uint64_t order = 0;     // In which it came.
    bool is_large = false;  // By PushBounds.
  };
  struct Queue {
    std::deque<std::shared_ptr<Push>> waiting;
    std::shared_ptr<Push> running;
    double replicated_to_s = 0;  // Of training: the newest that was committed with replicas.
    bool said_why = false;       // Its checkpoints go to the store first.
  };

  void Run(bool takes_large);
  std::shared_ptr<Push> Next(bool takes_large);
  Queue* NextQueue(bool takes_large, Time now, std::optional<Time>& soonest);
  TreeOptions OptionsOf(const Push& push) const;
  bool AnswerLater(const Fence& fence, uint64_t seq, const Done& done);
  void Enqueue(std::shared_ptr<Push> push);
  absl::StatusOr<uint64_t> Commit(Push& push);
  bool IsReplicatedFirst(const Push& push) const;
  absl::Status Replicate(Push& push);
  absl::Status Store(Push& push);
  double WorkSavedBefore(const Push& push);
  absl::Status MakeSafe(Push& push);
  bool IsForgotten(const Push& push) const;
  bool IsWanted(const Push& push) const;
  void LeaveReplica(const Push& push);
  bool Pause(Millis span);
  void Postpone(const std::shared_ptr<Push>& push);
  void Settle(const Push& push, bool is_committed);
  void Say(Push& push, const absl::Status& status);
  void SayOnce(const Push& push, const absl::Status& why);
  void Finish(const std::shared_ptr<Push>& push, const absl::StatusOr<uint64_t>& number);

  BlobStore& store_;
  HeadCalls& head_;
  LocalTrees& trees_;
  const std::function<void()> on_done_;
  PeerReplicas* const peers_;
  const PushBounds bounds_;
  ReplicaUploader uploader_;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t orders_ = 0;
  std::map<Fence, Queue> queues_;
};

}  // namespace rt::worker
