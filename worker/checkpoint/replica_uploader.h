// Replicas: checkpoints on this node's disk that the store does not have yet, of its own trials and
// of other nodes. Asks the head whether each is still needed, uploads those that this node is to
// upload, and releases the rest. The oldest replica of a trial goes first; among trials the one
// that saves most work per byte. LocalTrees remembers replicas across daemons. Owns two threads: an
// upload takes as long as the store takes, and replicas that are not needed any more are released
// meanwhile. Public functions are thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/cas/blob_store.h"
#include "worker/session/head_calls.h"
#include "worker/trees/local_trees.h"

namespace rt::worker {

class ReplicaUploader {
 public:
  // `on_done`: the store has one more of the replicas.
  ReplicaUploader(BlobStore& store, HeadCalls& head, LocalTrees& trees,
                  std::function<void()> on_done);
  ~ReplicaUploader();
  void Start();  // Also with the replicas of earlier daemons.
  void Stop();

  // A replica is about to be written and committed: the head is not asked before Add or Drop.
  // Called before it is written: earlier answers about the same bytes do not release it any more.
  void Expect(const Fence& fence, const std::string& manifest);
  // It is committed. `worth`: what would be lost with it, by any measure, per byte.
  void Add(const Fence& fence, const std::string& manifest, double worth);
  // It was not committed, or the store has it.
  void Drop(const Fence& fence, const std::string& manifest);
  // A replica whose commit may be pending, such as another node's. `row`: as in ReplicaQuestion.
  void AddUnsure(const Fence& fence, const std::string& manifest, uint64_t row);
  // How many of this rank's the store does not have, as far as is known here.
  size_t CountOf(const Fence& fence) const;
  // Whether the store lacks a committed checkpoint of the owner, as far as is known here. A replica
  // that is kept only because its commit may be pending does not count.
  bool HasOf(const Owner& owner) const;
  bool IsDone() const;  // The same of all, and none is about to be committed.

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Key = std::pair<Fence, std::string>;  // And the manifest.
  struct Entry {
    uint64_t order = 0;
    uint64_t round = 0;  // Changes each time that it is expected.
    bool is_expected = false;
    bool is_wanted = true;    // As the head said last.
    bool is_to_push = false;  // The same.
    bool is_pushing = false;  // Meanwhile it is not asked about.
    double worth = 1;
    Time added_at;
    // A head that does not know it may still learn of it: before this, or while a commit is
    // pending.
    Time sure_at;
    bool commit_pending = false;
    uint64_t row = 0;
    Time ask_at;
    Time push_at;  // Not before.
    Time said_at;
  };
  struct Due {
    Key key;
    uint64_t round = 0;
  };
  Entry& Known(const Fence& fence, const std::string& manifest);
  void AskAll();
  void PushAll();
  // What is due next; waits for it. nullopt: Stop.
  std::optional<Due> NextToAsk();
  std::optional<Due> NextToPush();
  // After how long to ask, or to try, again; nullopt: release it.
  std::optional<Millis> Ask(const Key& key);
  std::optional<Millis> Push(const Key& key);
  void Release(const Due& due);
  ReplicaQuestion QuestionOf(const Key& key) const;
  void NoteDuty(const Key& key, const ReplicaDuty& duty);
  void Say(const Key& key, const absl::Status& status);

  BlobStore& store_;
  HeadCalls& head_;
  LocalTrees& trees_;
  const std::function<void()> on_done_;
  std::thread asker_, pusher_;
  std::mutex releasing_;  // Taken before mutex_; while it is, no replica is added.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t next_order_ = 1;
  std::map<Key, Entry> entries_;
};

}  // namespace rt::worker
