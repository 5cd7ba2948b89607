#include "tests/unit/loop_harness.h"

using namespace rt;

TEST_CASE("loop: an answer waits until what it saw is durable") {
  Harness harness;
  harness.journal.Hold(true);
  auto answer = harness.Post(input::CreateToken{"tok", "worker", 60'000, ""});
  WaitFor([&] { return harness.journal.waiting() > 0; });
  std::promise<void> read_done;
  auto read = read_done.get_future();
  size_t tokens = 0;
  harness.loop->Query([&](const Core& core) { tokens = core.world.state.tokens.size(); },
                      [&](const absl::Status&) { read_done.set_value(); });
  CHECK(!IsReady(answer));
  CHECK(!IsReady(read));
  harness.journal.Hold(false);
  CHECK(Wait(answer).status.ok());
  Wait(read);
  CHECK(tokens == 1);
}

TEST_CASE("loop: a failed append is fatal, and nothing of it is seen") {
  Harness harness;
  harness.journal.Fail(absl::InternalError("disk"));
  auto answer = harness.Post(input::CreateToken{"tok", "worker", 60'000, ""});
  auto fatal = harness.fatal.get_future();
  CHECK(absl::IsInternal(Wait(fatal)));
  CHECK(!Wait(answer).status.ok());
}

TEST_CASE("loop: a parked Sync is answered when its node turns dirty") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  auto parked = harness.Sync(node, seen);
  auto job = harness.Post(AJob());
  CHECK(Wait(job).status.ok());
  const SyncReply reply = Wait(parked);
  CHECK(reply.version > seen.version);
  REQUIRE(reply.desired.size() == 1);
  REQUIRE(reply.bodies.size() == 1);
  CHECK(reply.bodies[0].argv == std::vector<std::string>{"true"});
}

TEST_CASE("loop: a parked Sync is answered with the hold, by a newer one, and by Wake") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  const auto start = std::chrono::steady_clock::now();
  auto held = harness.Sync(node, seen);
  CHECK(Wait(held).version == seen.version);
  CHECK(std::chrono::steady_clock::now() - start >=
        std::chrono::milliseconds(limits::kSyncHold / 2));
  auto older = harness.Sync(node, seen);
  auto newer = harness.Sync(node, seen);
  Wait(older);
  harness.loop->Wake(node);
  CHECK(Wait(newer).version > seen.version);
}

TEST_CASE("loop: a Sync beside an older one is parked, and the older one takes the news along") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  auto older = harness.Sync(node, seen);
  const uint64_t older_seq = harness.sync_seq;
  // The newer one has news of its own that the older one's answer holds: it sees an old version.
  auto newer = harness.Sync(node, {}, older_seq);
  const SyncReply told = Wait(older);
  CHECK(told.version == seen.version);
  auto job = harness.Post(AJob());
  CHECK(Wait(job).status.ok());
  const SyncReply reply = Wait(newer);
  CHECK(reply.version > told.version);
  CHECK(reply.bodies.size() == 1);
}

TEST_CASE("loop: a Sync beside an older one that the worker gave up is answered itself") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  auto older = harness.Sync(node, seen);
  auto newer = harness.Sync(node, {});  // From a worker that waits for nothing else.
  CHECK(Wait(newer).version == seen.version);
  Wait(older);
}

TEST_CASE("loop: a Sync that the head takes for a late one is answered at once, with the newest") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  CHECK((seen.newest_incarnation == 7 && seen.newest_seq == harness.sync_seq - 1));
  const uint64_t own = harness.sync_seq;
  harness.sync_seq += 1'000;
  auto made_up = harness.Sync(node, seen);  // By somebody else with the node's certificate.
  harness.sync_seq = own;
  auto late = harness.Sync(node, seen);
  CHECK(Wait(late).newest_seq == own + 1'001);
  Wait(made_up);
}

TEST_CASE("loop: who still ends what it was told to end is not answered without end") {
  Harness harness;
  const NodeId node = harness.Join();
  const SyncReply seen = harness.Settle(node);
  const Observed left_over{.fence = {{Owner::Of(TrialId{{1}, 0}), 1}, 0},
                           .phase = Observed::Phase::kRunning};
  auto told = harness.Sync(node, {}, 0, {left_over});
  CHECK(Wait(told).desired.empty());
  auto ending = harness.Sync(node, seen, 0, {left_over});
  for (int i = 0; i < 10; ++i) harness.Dump();  // Each after a batch of its own.
  CHECK(ending.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  harness.loop->Wake(node);
  Wait(ending);
}

TEST_CASE("loop: an unknown node's Sync is NotFound") {
  Harness harness;
  auto sync = harness.Sync(NodeId{42});
  CHECK(absl::IsNotFound(Wait(sync).status));
}

TEST_CASE("loop: a wall clock that was set back while no head ran holds no lease still") {
  Harness harness;
  const NodeId node = harness.Join();
  harness.Settle(node);
  harness.loop.reset();
  const auto set_back = [] {
    const auto wall = std::chrono::system_clock::now() - std::chrono::hours(1);
    return std::chrono::duration_cast<std::chrono::milliseconds>(wall.time_since_epoch()).count();
  };
  harness.LoopHarness::Start(harness.journal, {.wall_clock = set_back});
  harness.Settle(node);  // And then it falls silent.
  WaitFor([&] {
    bool lost = false;
    harness.Read([&](const Core& core) { lost = core.world.state.nodes.at(node).lost; });
    return lost;
  });
}

TEST_CASE("loop: a restart replays what was durable under a new epoch") {
  Harness harness;
  const NodeId node = harness.Join();
  auto job = harness.Post(AJob());
  CHECK(Wait(job).answer.job == JobId{1});
  harness.loop.reset();
  harness.Start();
  auto again = harness.Post(AJob());
  const Answered answered = Wait(again);
  CHECK(answered.answer.attached);
  CHECK(answered.answer.job == JobId{1});
  auto sync = harness.Sync(node);
  CHECK(Wait(sync).epoch == 2);
}

TEST_CASE("loop: while the journal stands still no node is lost for not being answered") {
  std::atomic<Millis> clock = 1'000'000, advance = 0;
  Harness harness({.tick_interval = 1, .wall_clock = [&] { return clock += advance; }});
  const NodeId node = harness.Join();
  harness.Settle(node);
  harness.journal.Hold(true);
  auto job = harness.Post(AJob());
  WaitFor([&] { return harness.journal.waiting() > 0; });
  const Millis stood_still_at = clock;
  advance = 5;
  WaitFor([&] { return clock > stood_still_at + 4 * limits::kLostAfter; });
  CHECK(harness.journal.waiting() == 1);
  advance = 0;
  harness.journal.Hold(false);
  REQUIRE(Wait(job).status.ok());
  harness.Read([&](const Core& core) { CHECK(!core.world.state.nodes.at(node).lost); });
}
