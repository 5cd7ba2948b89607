#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "tests/unit/push_doubles.h"
#include "worker/checkpoint/snapshot.h"

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
    const LaunchBody body{.fence = {{Owner::Of(TrialId{{1}, trial}), 1, 1}, 0}};
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

}  // namespace rt::worker
