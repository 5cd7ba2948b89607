#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <utility>

#include "common/base/status.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "worker/checkpoint/pusher.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/run/tree_files.h"

namespace rt::worker {
namespace {

namespace fs = std::filesystem;
const Fence kFence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};

struct Folder {
  TempDir dir{"saved"};
  const std::string& path = dir.path();
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path + "/" + name).parent_path());
    REQUIRE(WriteFileAtomic(path + "/" + name, text, {.sync = false}).ok());
  }
  std::string Read(const std::string& name) const { return *ReadFile(path + "/" + name); }
};

// A head that takes commits, or keeps them waiting.
class SlowHead : public HeadCalls {
 public:
  absl::StatusOr<uint64_t> CommitCheckpoint(const Fence&, const SpoolRow& row,
                                            const SafeCheckpoint& saved) override {
    std::unique_lock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    if (refuses_) return absl::FailedPreconditionError("stale");
    committed_.emplace_back(row.seq, saved.manifest);
    safe_.push_back(saved);
    changed_.notify_all();
    return committed_.size();
  }
  absl::StatusOr<HeldDuty> KeepCheckpoint(const Owner&, const std::string& manifest,
                                          HeldNews news, bool) override {
    std::exchange(on_question_, [] {})();
    std::lock_guard lock(mutex_);
    news_.emplace_back(manifest, news);
    changed_.notify_all();
    if (is_away_) return absl::UnavailableError("away");
    return HeldDuty{news == HeldNews::kNone && wants_, news == HeldNews::kNone && wants_};
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
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(*this); }));
  }
  std::function<void()> on_question_ = [] {};  // Runs while the first about a held one is asked.
  size_t asked_ = 0;
  std::vector<std::pair<uint64_t, std::string>> committed_;
  std::vector<SafeCheckpoint> safe_;
  std::vector<std::pair<std::string, HeldNews>> news_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool refuses_ = false;
  bool wants_ = true;
  bool is_away_ = true;  // For what is asked of the held ones.
};

struct Daemon {
  explicit Daemon(const Folder& folder, SlowHead& of,
                  DurableAfter durable_after = DurableAfter::kStore, PeerHolders* peers = nullptr)
      : head(of),
        trees(folder.path + "/kept", {}),
        pusher(store, head, trees,
               [this] {
                 std::lock_guard lock(mutex);
                 idle.notify_all();
               },
               peers) {
    LaunchBody body{.fence = kFence, .durable_after = durable_after};
    attempt = *LiveAttempt::Open(body, RunDir{folder.path + "/run"},
                                 {.on_row = [](bool) {}, .on_closed = [] {}});
    pusher.Start();
  }
  ~Daemon() {
    head.Open();  // Or its threads wait for ever.
    pusher.Stop();
  }
  absl::Status Take(uint64_t seq, const std::string& path, bool given = false,
                    CheckpointPushes::Done done = [](const absl::StatusOr<uint64_t>&) {}) {
    return pusher.Take(attempt, {.seq = seq, .metrics = "{}", .saved = true}, {path, given}, done);
  }
  void AwaitIdle() {
    std::unique_lock lock(mutex);
    REQUIRE(idle.wait_for(lock, std::chrono::seconds(20), [this] { return !pusher.Has(kFence); }));
  }
  SlowHead& head;
  MemStore store;
  LocalTrees trees;
  std::mutex mutex;
  std::condition_variable idle;
  std::shared_ptr<LiveAttempt> attempt;
  CheckpointPusher pusher;
  // Until everything that was held has been stored, or let go.
  void AwaitStored() {
    std::unique_lock lock(mutex);
    REQUIRE(idle.wait_for(lock, std::chrono::seconds(20),
                          [this] { return !pusher.HasUnstored(kFence.attempt.owner); }));
  }
};

// Another node that holds what it is asked to, or cannot.
struct OneHolder : public PeerHolders {
  std::atomic<int> asked = 0;
  bool has_room = true;
  std::function<void()> on_asked = [] {};
  absl::StatusOr<uint64_t> Hold(const std::string&, const Fence&) override {
    ++asked;
    on_asked();
    if (!has_room) return absl::ResourceExhaustedError("no room");
    return uint64_t{7};
  }
};

void Save(const Folder& folder, Daemon& daemon, uint64_t seq, const std::string& bytes) {
  folder.Write("a/x", bytes);
  REQUIRE(daemon.Take(seq, folder.path + "/a").ok());
}

}  // namespace

TEST_CASE("a snapshot does not change with what it was taken of") {
  Folder folder;
  folder.Write("model/weights", "one");
  folder.Write("model/deep/note", "two");
  fs::create_symlink("weights", folder.path + "/model/latest");
  REQUIRE(TakeSnapshot(folder.path + "/model", folder.path + "/taken", false).ok());
  folder.Write("model/weights", "changed");
  ::truncate((folder.path + "/model/deep/note").c_str(), 0);
  CHECK(folder.Read("taken/weights") == "one");
  CHECK(folder.Read("taken/deep/note") == "two");
  CHECK(fs::read_symlink(folder.path + "/taken/latest") == "weights");
}

TEST_CASE("what the trial gives away is moved, not copied") {
  Folder folder;
  folder.Write("model/weights", "one");
  struct stat before {}, after {};
  REQUIRE(::stat((folder.path + "/model/weights").c_str(), &before) == 0);
  REQUIRE(TakeSnapshot(folder.path + "/model", folder.path + "/taken", true).ok());
  REQUIRE(::stat((folder.path + "/taken/weights").c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
  CHECK_FALSE(Exists(folder.path + "/model"));
}

TEST_CASE("a file becomes a directory of one file; what is missing or no file is refused") {
  Folder folder;
  folder.Write("weights.pt", "one");
  REQUIRE(TakeSnapshot(folder.path + "/weights.pt", folder.path + "/taken", false).ok());
  CHECK(folder.Read("taken/weights.pt") == "one");
  CHECK(folder.Read("weights.pt") == "one");
  CHECK(absl::IsNotFound(TakeSnapshot(folder.path + "/no", folder.path + "/t2", false)));
  CHECK_FALSE(TakeSnapshot("/dev/null", folder.path + "/t3", false).ok());
}

TEST_CASE("the trial goes on while its checkpoints are pushed, in order, until it has given two") {
  Folder folder;
  SlowHead head;
  Daemon daemon(folder, head);
  folder.Write("a/x", "1");
  REQUIRE(daemon.Take(1, folder.path + "/a").ok());
  head.Await([](const SlowHead& h) { return h.asked_ == 1; });
  CHECK_FALSE(daemon.pusher.IsFull(kFence));
  folder.Write("a/x", "2");
  REQUIRE(daemon.Take(2, folder.path + "/a").ok());
  CHECK(daemon.pusher.IsFull(kFence));
  folder.Write("a/x", "3");
  head.Open();
  daemon.AwaitIdle();
  REQUIRE(head.committed_.size() == 2);
  CHECK(head.committed_[0].first == 1);
  CHECK(head.committed_[1].first == 2);
  REQUIRE(RestoreTree(daemon.store, head.committed_[1].second, folder.path + "/back").ok());
  CHECK(folder.Read("back/x") == "2");
}

TEST_CASE("the next daemon pushes what the one before had taken, and takes nothing twice") {
  Folder folder;
  SlowHead head;
  folder.Write("a/x", "1");
  {
    Folder elsewhere;
    SlowHead dead;
    dead.Refuse();
    Daemon first(folder, dead);
    REQUIRE(first.Take(1, folder.path + "/a", true).ok());
    dead.Await([](const SlowHead& h) { return h.asked_ == 1; });
    // Killed here: a copy of what it leaves.
    fs::copy(folder.path + "/run", folder.path + "/copy", fs::copy_options::recursive);
  }
  fs::remove_all(folder.path + "/run");
  fs::rename(folder.path + "/copy", folder.path + "/run");
  Daemon second(folder, head);
  second.pusher.Recover(second.attempt);
  head.Open();
  REQUIRE(second.Take(1, folder.path + "/a", true).ok());  // Its ack was lost; the files are gone.
  second.AwaitIdle();
  REQUIRE(head.committed_.size() == 1);
  uint64_t number = 7;
  REQUIRE(second.Take(1, folder.path + "/a", true, [&](const absl::StatusOr<uint64_t>& again) {
    number = again.value_or(8);
  }).ok());
  CHECK(number == 0);
}

namespace {

// Has no room for what begins with "large".
class TightStore final : public MemStore {
 public:
  std::atomic<bool> tight = true;
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override {
    if (tight && bytes.starts_with("large")) return absl::ResourceExhaustedError("no room");
    return MemStore::PutChunk(digest, bytes);
  }
};

}  // namespace

TEST_CASE("what waits for room leaves the threads to others, and is committed with room") {
  Folder folder;
  SlowHead head;
  head.Open();
  TightStore store;
  LocalTrees trees(folder.path + "/kept", {});
  CheckpointPusher pusher(store, head, trees, [] {});
  pusher.Start();
  std::vector<std::shared_ptr<LiveAttempt>> attempts;
  for (uint32_t trial = 0; trial < 4; ++trial) {
    const std::string name = std::to_string(trial);
    const LaunchBody body{.fence = {{Owner::Of(TrialId{{1}, trial}), 1, 1}, 0}};
    attempts.push_back(*LiveAttempt::Open(body, RunDir{folder.path + "/run" + name},
                                          {.on_row = [](bool) {}, .on_closed = [] {}}));
    folder.Write("saved" + name + "/weights", (trial < 3 ? "large " : "small ") + name);
    REQUIRE(pusher.Take(attempts.back(), {.seq = trial + 1, .metrics = "{}", .saved = true},
                        {folder.path + "/saved" + name, false},
                        [](const absl::StatusOr<uint64_t>&) {}).ok());
  }
  head.Await([](const SlowHead& one) { return !one.committed_.empty(); });
  CHECK(head.committed_.front().first == 4);
  for (size_t trial = 0; trial < 3; ++trial) CHECK(pusher.Has(attempts[trial]->fence()));
  store.tight = false;
  head.Await([](const SlowHead& one) { return one.committed_.size() == 4; });
  pusher.Stop();
}

TEST_CASE("where the disk is enough, the commit does not wait for the store, which gets it later") {
  Folder folder;
  SlowHead head;
  head.Open();
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  head.Await([](const SlowHead& h) { return h.committed_.size() == 1 && !h.news_.empty(); });
  CHECK(head.safe_.front().held);
  CHECK(head.safe_.front().peers.empty());
  const std::string manifest = head.committed_.front().second;
  CHECK(absl::IsNotFound(daemon.store.GetManifest(manifest).status()));
  CHECK(daemon.pusher.HasUnstored(kFence.attempt.owner));
  head.SetWants(true);
  daemon.AwaitStored();
  CHECK(head.news_.back() == std::pair{manifest, HeldNews::kStored});
  CHECK(daemon.store.GetManifest(manifest).ok());
  CHECK(daemon.trees.Held().empty());
  CHECK(daemon.trees.GetManifest(manifest).ok());  // Kept, for whoever restores it here.
}

TEST_CASE("what nobody wants any more is not pushed") {
  Folder folder;
  SlowHead head;
  head.Open();
  head.SetWants(false);
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  daemon.AwaitStored();
  CHECK(absl::IsNotFound(daemon.store.GetManifest(head.committed_.front().second).status()));
  CHECK(daemon.trees.Held().empty());
}

TEST_CASE("the next daemon brings to the store what the one before held") {
  Folder folder;
  SlowHead head;
  head.Open();
  std::string manifest;
  {
    Daemon daemon(folder, head, DurableAfter::kLocal);
    Save(folder, daemon, 1, "1");
    daemon.AwaitIdle();
    manifest = head.committed_.front().second;
  }
  head.SetWants(true);
  Daemon daemon(folder, head, DurableAfter::kLocal);
  CHECK(daemon.pusher.HasUnstored(kFence.attempt.owner));
  daemon.AwaitStored();
  CHECK(daemon.store.GetManifest(manifest).ok());
  CHECK(head.committed_.size() == 1);
}

TEST_CASE("with a peer it counts once that holds it; where none can, it goes to the store") {
  Folder folder;
  SlowHead head;
  head.Open();
  OneHolder peer;
  Daemon daemon(folder, head, DurableAfter::kPeer, &peer);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  CHECK(head.safe_.back().peers == std::vector<uint64_t>{7});
  peer.has_room = false;
  Save(folder, daemon, 2, "2");
  daemon.AwaitIdle();
  CHECK(peer.asked == 2);
  CHECK_FALSE(head.safe_.back().held);
  CHECK(daemon.store.GetManifest(head.committed_.back().second).ok());
  CHECK(daemon.trees.Held().size() == 1);  // The first.
}

TEST_CASE("what has changed since it was held is not committed") {
  Folder folder;
  SlowHead head;
  head.Open();
  OneHolder peer;
  peer.has_room = false;  // So that it goes to the store at once, from where it is held.
  Daemon daemon(folder, head, DurableAfter::kPeer, &peer);
  peer.on_asked = [&] {
    const std::string held = daemon.trees.HeldAt(daemon.trees.Held().front().manifest);
    REQUIRE(WriteFileAtomic(held + "/x", "other").ok());
  };
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  CHECK(peer.asked == 1);
  CHECK(head.committed_.empty());
  CHECK(daemon.trees.Held().empty());
  CHECK(daemon.pusher.held().IsDone());
}

TEST_CASE("bytes that have gone are said to be, and nothing else is pushed for them") {
  Folder folder;
  SlowHead head;
  head.Open();
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  const std::string manifest = head.committed_.front().second;
  REQUIRE(WriteFileAtomic(daemon.trees.HeldAt(manifest) + "/x", "2").ok());
  head.SetWants(true);
  daemon.AwaitStored();
  CHECK(head.news_.back() == std::pair{manifest, HeldNews::kGone});
  CHECK(absl::IsNotFound(daemon.store.GetManifest(manifest).status()));
}

TEST_CASE("one whose commit is refused is held no more, unless an earlier try was heard") {
  const bool heard = GENERATE(false, true);
  Folder folder;
  SlowHead head;
  head.Refuse();
  head.Open();
  head.SetWants(heard);
  Daemon daemon(folder, head, DurableAfter::kLocal);
  Save(folder, daemon, 1, "1");
  daemon.AwaitIdle();
  daemon.AwaitStored();
  CHECK(daemon.trees.Held().empty());
  REQUIRE_FALSE(head.news_.empty());  // The head was asked before anything was let go.
  CHECK(daemon.store.GetManifest(head.news_.back().first).ok() == heard);
}

TEST_CASE("a copy that nobody may ever commit stays for a while, and keeps no trial waiting") {
  Folder folder;
  SlowHead head;
  head.SetWants(false);
  Daemon daemon(folder, head);
  folder.Write("a/x", "1");
  MemStore elsewhere;
  const StoredTree tree = *StoreTree(elsewhere, folder.path + "/a", {});
  const absl::Status held =
      daemon.trees.Hold(kFence, tree.manifest, tree.text, folder.path + "/a", FileClock());
  REQUIRE(held.ok());
  daemon.pusher.held().AddUnsure(kFence, tree.manifest);
  daemon.AwaitStored();
  CHECK(daemon.pusher.held().IsDone());
  CHECK(daemon.trees.Held().size() == 1);
}

TEST_CASE("what the head said of a copy does not let go of the one that came meanwhile") {
  Folder folder;
  SlowHead head;
  head.SetWants(false);
  Daemon daemon(folder, head);
  folder.Write("a/x", "1");
  MemStore elsewhere;
  const StoredTree tree = *StoreTree(elsewhere, folder.path + "/a", {});
  HeldPusher& held = daemon.pusher.held();
  held.Expect(kFence, tree.manifest);
  const absl::Status taken =
      daemon.trees.Hold(kFence, tree.manifest, tree.text, folder.path + "/a", FileClock());
  REQUIRE(taken.ok());
  std::atomic<bool> is_here = false;
  head.on_question_ = [&] {
    held.Expect(kFence, tree.manifest);
    is_here = daemon.trees.HoldAgain(kFence, tree.manifest);
    held.AddUnsure(kFence, tree.manifest);
  };
  held.Add(kFence, tree.manifest, 1);
  head.Await([](SlowHead& h) { return h.news_.size() >= 2; });  // It is still held, and asks again.
  CHECK(is_here);
  CHECK(daemon.trees.Held().size() == 1);
}

}  // namespace rt::worker
