// What the tests of CheckpointPusher and ReplicaUploader stand on: a head, a store and another node
// that do as they are told, and a daemon's part in between.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"
#include "worker/checkpoint/pusher.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {

inline const Fence kFence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};

struct Folder {
  TempDir dir{"saved"};
  const std::string& path = dir.path();
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    REQUIRE(WriteFileAtomic(path + "/" + name, text, {.sync = false}).ok());
  }
  std::string Read(const std::string& name) const { return *ReadFile(path + "/" + name); }
};

// A head that takes commits, or keeps them waiting.
class SlowHead : public HeadCalls {
 public:
  absl::StatusOr<uint64_t> CommitCheckpoint(const Fence&, const SpoolRow& row,
                                            const SafeCheckpoint& safe) override {
    std::unique_lock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    if (refuses_) return absl::FailedPreconditionError("stale");
    committed_.emplace_back(row.seq, safe.manifest);
    safe_.push_back(safe);
    changed_.notify_all();
    return committed_.size();
  }
  absl::StatusOr<ReplicaDuty> RenewReplica(const ReplicaQuestion& question) override {
    std::exchange(on_question_, [] {})();
    std::lock_guard lock(mutex_);
    statuses_.emplace_back(question.manifest, question.status);
    changed_.notify_all();
    if (is_away_) return absl::UnavailableError("away");
    ReplicaDuty duty;
    duty.needed = duty.push = question.status == ReplicaStatus::kNone && wants_;
    if (settled_ && !duty.needed) {
      duty.commit_pending = question.early && question.row > *settled_;
      duty.release = !duty.commit_pending;
    }
    return duty;
  }
  size_t CountStatus() {
    std::lock_guard lock(mutex_);
    return statuses_.size();
  }
  void SetSettled(uint64_t row) {
    std::lock_guard lock(mutex_);
    settled_ = row;
  }
  void SetWants(bool wants) {
    std::lock_guard lock(mutex_);
    wants_ = wants;
    is_away_ = false;
  }
  void DriverCall(const Fence&, std::string,
                  std::function<void(absl::StatusOr<std::string>)>) override {}
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Refuse() { refuses_ = true; }
  template <class Condition>
  void Await(Condition condition) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return condition(*this); }));
  }
  std::function<void()> on_question_ = [] {};  // Runs while the first about a held one is asked.
  size_t asked_ = 0;
  std::vector<std::pair<uint64_t, std::string>> committed_;
  std::vector<SafeCheckpoint> safe_;
  std::vector<std::pair<std::string, ReplicaStatus>> statuses_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool refuses_ = false;
  bool wants_ = true;
  bool is_away_ = true;  // For what is asked of the held ones.
  std::optional<uint64_t> settled_;  // Rows; a head of before does not say.
};

// A store that may take its time.
class SlowStore : public MemStore {
 public:
  absl::StatusOr<std::string> PutManifest(std::string_view text) override {
    {
      std::unique_lock lock(mutex_);
      is_reached_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_open_; });
    }
    return MemStore::PutManifest(text);
  }
  void SetOpen(bool open) {
    std::lock_guard lock(mutex_);
    is_open_ = open;
    changed_.notify_all();
  }
  void AwaitPush() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [this] { return is_reached_; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  bool is_reached_ = false;
};

struct Daemon {
  explicit Daemon(const Folder& folder, SlowHead& of,
                  DurableAfter durable_after = DurableAfter::kStore, PeerReplicas* peers = nullptr)
      : head(of), trees(folder.path + "/kept", {}), pusher(
                                                        store, head, trees,
                                                        [this] {
                                                          std::lock_guard lock(mutex);
                                                          idle.notify_all();
                                                        },
                                                        peers) {
    LaunchBody body{{.fence = kFence, .durable_after = durable_after}};
    attempt = *LiveAttempt::Open(body, RunDir{folder.path + "/run"},
                                 {.on_row = [](bool) {}, .on_closed = [] {}});
    pusher.Start();
  }
  ~Daemon() {
    head.Open();  // Or its threads wait for ever.
    store.SetOpen(true);
    pusher.Stop();
  }
  absl::Status Take(uint64_t seq, const std::string& path, bool given = false,
                    CheckpointPushes::Done done = [](const absl::StatusOr<uint64_t>&) {}) {
    return pusher.Take(attempt, {.seq = seq, .metrics = "{}", .with_checkpoint = true},
                       {path, given}, done);
  }
  void AwaitIdle() {
    std::unique_lock lock(mutex);
    REQUIRE(idle.wait_for(lock, kPatience, [this] { return !pusher.Has(kFence); }));
  }
  SlowHead& head;
  SlowStore store;
  LocalTrees trees;
  std::mutex mutex;
  std::condition_variable idle;
  std::shared_ptr<LiveAttempt> attempt;
  CheckpointPusher pusher;
  // Until everything that was held has been stored, or let go.
  void AwaitStored() {
    std::unique_lock lock(mutex);
    REQUIRE(idle.wait_for(lock, kPatience,
                          [this] { return !pusher.HasUnstored(kFence.attempt.owner); }));
  }
  // Until no replica is on this node: that is after the one above, on another thread.
  void AwaitReleased() {
    std::unique_lock lock(mutex);
    REQUIRE(idle.wait_for(lock, kPatience, [this] { return trees.Replicas().empty(); }));
  }
};

// Another node that holds what it is asked to, or cannot.
struct OnePeer : public PeerReplicas {
  std::atomic<int> asked = 0;
  bool has_space = true;
  std::function<void()> on_asked = [] {};
  absl::StatusOr<uint64_t> Replicate(const std::string&, const Fence&, uint64_t) override {
    ++asked;
    on_asked();
    if (!has_space) return absl::ResourceExhaustedError("no room");
    return uint64_t{7};
  }
};

inline void Save(const Folder& folder, Daemon& daemon, uint64_t seq, const std::string& bytes) {
  folder.Write("a/x", bytes);
  REQUIRE(daemon.Take(seq, folder.path + "/a").ok());
}

}  // namespace rt::worker
