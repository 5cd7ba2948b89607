// What the loop does at its limits: its snapshots, a full inbox, a full disk, a state that
// contradicts itself.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/status.h"
#include "head/journal/replay.h"
#include "head/journal/sqlite_journal.h"
#include "tests/temp_dir.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

input::SubmitJob JobOf(const std::string& key) {
  return {"me", R"({"name":"j","argv":["true"]})", key};
}

// From the first record, without any snapshot.
std::string ReplayedDump(Journal& journal) {
  World world;
  REQUIRE(journal.Read(0, [&](const Record& record) {
    Apply(world, record);
    return absl::OkStatus();
  }).ok());
  return CanonicalDump(world.state);
}

uint64_t SnapshotSeq(Journal& journal) {
  auto snapshot = journal.LatestSnapshot(UINT64_MAX);
  REQUIRE(snapshot.ok());
  return snapshot->has_value() ? (*snapshot)->seq : 0;
}

}  // namespace

TEST_CASE("loop: snapshots are taken at the threshold, and a start from one gives the same state") {
  TempDir folder("loop");
  const auto open = [&] {
    auto journal = OpenSqliteJournal(folder.File("journal.db"));
    REQUIRE(journal.ok());
    return *std::move(journal);
  };
  auto journal = open();
  auto harness = std::make_unique<LoopHarness>();
  harness->Start(*journal, {.snapshot_every_events = 50});
  const NodeId node = harness->Join();
  harness->Settle(node);
  for (int i = 0; i < 60; ++i) {
    auto job = harness->Post(JobOf("before-" + std::to_string(i)));
    REQUIRE(Wait(job).status.ok());
  }
  WaitFor([&] { return SnapshotSeq(*journal) > 0; });
  CHECK(SnapshotSeq(*journal) >= 50);
  harness = nullptr;
  harness = std::make_unique<LoopHarness>();
  harness->Start(*journal);                    // Without further snapshots.
  auto after = harness->Post(JobOf("after"));  // The snapshot is not the whole story.
  REQUIRE(Wait(after).status.ok());
  const std::string live = harness->Dump();
  harness.reset();
  CHECK(ReplayedDump(*journal) == live);
  journal.reset();
  journal = open();
  auto replayed = Replay(*journal);
  REQUIRE(replayed.ok());
  CHECK(replayed->snapshot_seq >= 50);
  CHECK(replayed->snapshot_seq < replayed->world.state.seq);
  CHECK(CanonicalDump(replayed->world.state) == live);
  harness = std::make_unique<LoopHarness>();
  harness->Start(*journal);
  auto again = harness->Post(JobOf("before-0"));
  CHECK(Wait(again).answer.attached);
  CHECK(ReplayedDump(*journal) == harness->Dump());
}

TEST_CASE("loop: a full inbox refuses at once, keeps room for Sync, and loses nothing") {
  Harness harness;
  const NodeId node = harness.Join();
  std::promise<void> entered, go_on;
  harness.loop->Query([&](const Core&) { entered.set_value(); go_on.get_future().wait(); },
                      [](const absl::Status&) {});
  entered.get_future().wait();
  constexpr size_t kRoom = limits::kInboxInputsMax - limits::kInboxReservedForSync;
  constexpr size_t kTooMany = 100;
  std::vector<std::future<Answered>> accepted;
  for (size_t i = 0; i < kRoom; ++i) accepted.push_back(harness.Post(JobOf(std::to_string(i))));
  for (size_t i = 0; i < kTooMany; ++i) {
    auto refused = harness.Post(JobOf("refused-" + std::to_string(i)));
    REQUIRE(IsReady(refused));
    REQUIRE(absl::IsResourceExhausted(refused.get().status));
  }
  auto sync = harness.Sync(node);
  CHECK(!IsReady(sync));  // It has its place in the queue.
  go_on.set_value();
  std::set<JobId> jobs;
  for (auto& answer : accepted) {
    const Answered answered = Wait(answer);
    REQUIRE(answered.status.ok());
    jobs.insert(answered.answer.job);
  }
  CHECK(jobs.size() == kRoom);
  CHECK(Wait(sync).status.ok());
  size_t known = 0;
  harness.Read([&](const Core& core) { known = core.world.state.jobs.size(); });
  CHECK(known == kRoom);
}

TEST_CASE("loop: a full disk ends the head, and what was acknowledged is there afterwards") {
  TempDir folder("loop");
  std::vector<JobId> acknowledged;
  {
    auto journal = OpenSqliteJournal(folder.File("journal.db"), {.pages_max = 64});
    REQUIRE(journal.ok());
    LoopHarness harness;
    harness.Start(**journal);
    auto fatal = harness.fatal.get_future();
    for (int i = 0; !IsReady(fatal); ++i) {
      REQUIRE(i < 100'000);
      auto job = harness.Post(JobOf(std::string(1'000, 'k') + std::to_string(i)));
      const Answered answered = Wait(job);
      if (!answered.status.ok()) continue;
      acknowledged.push_back(answered.answer.job);
    }
    const absl::Status status = Wait(fatal);
    CHECK(absl::IsResourceExhausted(status));
    CHECK(MessageOf(status).find("full") != std::string::npos);
    auto late = harness.Post(JobOf("late"));
    CHECK(!Wait(late).status.ok());
  }
  REQUIRE(acknowledged.size() > 10);
  auto journal = OpenSqliteJournal(folder.File("journal.db"));  // Somebody made room.
  REQUIRE(journal.ok());
  LoopHarness harness;
  harness.Start(**journal);
  harness.Read([&](const Core& core) {
    for (JobId job : acknowledged) CHECK(core.world.state.jobs.contains(job));
    CHECK(core.world.state.jobs.size() == acknowledged.size());
  });
  auto next = harness.Post(JobOf("next"));
  CHECK(Wait(next).status.ok());
}

TEST_CASE("loop: a state that contradicts itself ends the head at the next sampled check") {
  int out[2];
  REQUIRE(pipe(out) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // Ends by the check, or with 0 when the loop never looks.
    dup2(out[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);  // Not Catch's.
    Harness harness({.inputs_per_check = 64});
    harness.Join();
    harness.Read([](const Core& core) {
      const_cast<Core&>(core).world.index.nodes.begin()->second.used.cpu = 1;
    });
    for (int i = 0; i < 128; ++i) {
      auto job = harness.Post(JobOf(std::to_string(i)));
      job.wait();
    }
    _exit(0);
  }
  close(out[1]);
  std::string said;
  char piece[4096];
  for (ssize_t size; (size = read(out[0], piece, sizeof piece)) > 0;)
    said.append(piece, static_cast<size_t>(size));
  close(out[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(said.find("invariants.cc") != std::string::npos);
}
