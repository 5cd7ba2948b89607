#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "tests/patience.h"
#include "tests/unit/push_doubles.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/session/push_end.h"

namespace rt::worker {

namespace fs = std::filesystem;

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

TEST_CASE("a report that is sent again, uncounted by its trial, is the row that it was") {
  Folder folder;
  SlowHead head;
  Daemon daemon(folder, head);
  REQUIRE(EnsureDirectory(folder.path + "/run").ok());
  const Json metrics = *Json::Parse(R"({"loss":1})");
  REQUIRE(daemon.attempt->AddRow(metrics, {.client_seq = 1})->iteration == 1);
  REQUIRE(daemon.attempt->AddRow(metrics, {.client_seq = 2})->iteration == 2);
  auto again = daemon.attempt->AddRow(metrics, {.client_seq = 2});
  REQUIRE(again.ok());
  CHECK(again->seq == 2);
  CHECK(again->iteration == 2);
  CHECK(daemon.attempt->spool().last_seq() == 2);
  CHECK(daemon.attempt->AddRow(metrics, {.client_seq = 3})->iteration == 3);
}

TEST_CASE("an error that is too long, or no text, can still be sent") {
  Folder folder;
  SlowHead head;
  Daemon daemon(folder, head);
  REQUIRE(EnsureDirectory(folder.path + "/run").ok());
  std::string message = "a";
  while (message.size() < 3 * limits::kErrorBytesMax) message += "漢";
  daemon.attempt->SetError({"ValueError", message, "caf\xe9"});
  const Error error = daemon.attempt->LastError({.exit_code = 1});
  CHECK(IsValidUtf8(error.message));
  CHECK(error.message.size() > limits::kErrorBytesMax - 4);
  CHECK(error.message.size() <= limits::kErrorBytesMax);
  CHECK(error.traceback == "caf\xef\xbf\xbd");
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

TEST_CASE("a push that waits for space blocks no thread, and is committed later") {
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
    const LaunchBody body{{.fence = {{Owner::Of(TrialId{{1}, trial}), 1, 1}, 0}}};
    attempts.push_back(*LiveAttempt::Open(body, RunDir{folder.path + "/run" + name},
                                          {.on_row = [](bool) {}, .on_closed = [] {}}));
    folder.Write("saved" + name + "/weights", (trial < 3 ? "large " : "small ") + name);
    REQUIRE(pusher
                .Take(attempts.back(), {.seq = trial + 1, .metrics = "{}", .with_checkpoint = true},
                      {folder.path + "/saved" + name, false},
                      [](const absl::StatusOr<uint64_t>&) {})
                .ok());
  }
  head.Await([](const SlowHead& one) { return !one.committed_.empty(); });
  CHECK(head.committed_.front().first == 4);
  for (size_t trial = 0; trial < 3; ++trial) CHECK(pusher.Has(attempts[trial]->fence()));
  store.tight = false;
  head.Await([](const SlowHead& one) { return one.committed_.size() == 4; });
  pusher.Stop();
}

namespace {

// Counts its questions, and keeps a tree waiting that has a file of a name that is not open yet.
class BusyStore final : public MemStore {
 public:
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override {
    {
      std::lock_guard lock(mutex_);
      ++pushes_seen_;
    }
    changed_.notify_all();
    return MemStore::FindMissing(digests);
  }
  absl::StatusOr<std::string> PutManifest(std::string_view text) override {
    std::unique_lock lock(mutex_);
    for (const char* name : {"large", "first"}) {
      if (text.find(name) == std::string_view::npos) continue;
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_.contains(name); });
    }
    lock.unlock();
    return MemStore::PutManifest(text);
  }
  void AwaitSeen(int pushes) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return pushes_seen_ >= pushes; }));
  }
  void AwaitWaiting(int pushes) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return waiting_ >= pushes; }));
  }
  void Open(const std::string& name) {
    std::lock_guard lock(mutex_);
    open_.insert(name);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int pushes_seen_ = 0;
  int waiting_ = 0;
  std::set<std::string> open_;
};

constexpr Bytes kHuge = Bytes{600} << 30;  // Reading it takes minutes.

// A pusher with an attempt for each checkpoint.
struct ManyAttempts {
  explicit ManyAttempts(PushBounds bounds = {})
      : trees(folder.path + "/kept", {}),
        pusher(store, head, trees, [] {}, nullptr, bounds) {
    head.Open();
    pusher.Start();
  }
  ~ManyAttempts() {
    for (const char* name : {"large", "first"}) store.Open(name);
    pusher.Stop();
  }
  // Row number `row` of an attempt of its own comes with this file, of that many bytes.
  Fence Take(uint32_t row, const std::string& name, Bytes bytes) {
    const Fence fence{{Owner::Of(TrialId{{1}, row}), 1, 1}, 0};
    const std::string number = std::to_string(row);
    attempts.push_back(*LiveAttempt::Open({{.fence = fence}}, RunDir{folder.path + "/run" + number},
                                          {.on_row = [](bool) {}, .on_closed = [] {}}));
    const std::string saved = folder.path + "/saved" + number;
    std::string text = number;
    if (bytes == kHuge)  // As many different chunks as the store is asked about at a time.
      for (char chunk = 'a'; chunk < 'r'; ++chunk) text.append(limits::kChunkBytes, chunk);
    folder.Write("saved" + number + "/" + name, text);
    fs::resize_file(saved + "/" + name, static_cast<uintmax_t>(bytes));  // Sparse.
    REQUIRE(pusher
                .Take(attempts.back(), {.seq = row, .metrics = "{}", .with_checkpoint = true},
                      {saved, true}, [](const absl::StatusOr<uint64_t>&) {})
                .ok());
    return fence;
  }
  void AwaitCommits(size_t commits) {
    head.Await([&](const SlowHead& one) { return one.committed_.size() >= commits; });
  }
  Folder folder;
  SlowHead head;
  BusyStore store;
  LocalTrees trees;
  CheckpointPusher pusher;
  std::vector<std::shared_ptr<LiveAttempt>> attempts;
};

}  // namespace

TEST_CASE("a push of hundreds of GiB ends soon after its attempt is forgotten") {
  ManyAttempts node({.large = 1});
  const Fence first = node.Take(1, "a", kHuge), second = node.Take(2, "b", kHuge);
  node.store.AwaitSeen(2);
  node.Take(3, "c", 8);
  node.pusher.Forget(first);
  node.pusher.Forget(second);
  node.AwaitCommits(1);
  CHECK(node.head.committed_.front().first == 3);
}

TEST_CASE("a daemon that stops does not wait for a push of hundreds of GiB") {
  ManyAttempts node;
  node.Take(1, "a", kHuge);
  node.store.AwaitSeen(1);
  const auto before = std::chrono::steady_clock::now();
  node.pusher.Stop();
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(20));
  CHECK(node.head.committed_.empty());
  CHECK(fs::exists(node.folder.path + "/run1/saved/1/tree/a"));  // For the next daemon.
}

TEST_CASE("a push ends soon after the head has called its attempt stale") {
  ManyAttempts node({.large = 1});
  node.Take(1, "a", kHuge);
  node.Take(2, "b", kHuge);
  node.store.AwaitSeen(2);
  node.Take(3, "c", 8);
  for (size_t i : {0, 1}) node.attempts[i]->OnVerdict({.stale = true});
  node.AwaitCommits(1);
  CHECK(node.head.committed_.front().first == 3);
}

TEST_CASE("large checkpoints of some attempts do not hold up the small ones of others") {
  ManyAttempts node({.large = 1'000});
  node.Take(1, "large", 1'000);
  node.Take(2, "large", 1'000);
  node.Take(3, "large", 1'000);
  node.store.AwaitWaiting(2);
  node.Take(4, "small", 999);
  node.AwaitCommits(1);
  CHECK(node.head.committed_.front().first == 4);
  node.store.Open("large");
  node.AwaitCommits(4);
}

TEST_CASE("the checkpoint that came first is pushed first, whatever its trial's number") {
  ManyAttempts node({.large = 1'000});
  node.Take(8, "large", 1'000);
  node.Take(9, "large", 1'000);
  node.Take(10, "first", 9);
  node.store.AwaitWaiting(3);  // All threads.
  for (uint32_t row : {7, 6, 5}) node.Take(row, "next", 9);
  node.store.Open("first");
  node.AwaitCommits(4);
  std::vector<uint64_t> rows;
  for (const auto& [row, manifest] : node.head.committed_) rows.push_back(row);
  CHECK(rows == std::vector<uint64_t>{10, 7, 6, 5});
}

TEST_CASE("a stopped attempt waits for its checkpoint within a bound, one that resumes without") {
  AttemptState attempt{.stage = Stage::kDraining};
  CHECK(DecidePushEnd(attempt, false, limits::kPushAfterStop * 9) == PushEnd::kWait);
  attempt.stop = true;
  CHECK(DecidePushEnd(attempt, false, limits::kPushAfterStop - 1) == PushEnd::kWait);
  CHECK(DecidePushEnd(attempt, false, limits::kPushAfterStop) == PushEnd::kStoppedLong);
  CHECK(DecidePushEnd(attempt, true, limits::kPushAfterStop) == PushEnd::kWait);
  attempt.wanted = false;
  CHECK(DecidePushEnd(attempt, true, 0) == PushEnd::kUnwanted);
}

}  // namespace rt::worker
