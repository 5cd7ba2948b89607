// The circuit breaker: many nodes that vanish at once are rather the network's doing.
#include "tests/unit/core_story.h"

namespace rt {
namespace {

// Five nodes of one cpu, with a trial each.
struct Fleet : Story {
  static constexpr uint32_t kNodes = 5;
  uint64_t seq = 100;

  Fleet() {
    for (uint32_t i = 2; i <= kNodes; ++i) {
      const std::string token = "tok" + std::to_string(i);
      Do(input::CreateToken{token, "worker", now + 1000, ""});
      REQUIRE(Do(input::UseToken{token, "n" + std::to_string(i)}).answer.node == NodeId{i});
    }
    Hear(kNodes);
    Create(R"(,"num_samples":5,"metric":"loss","mode":"min")");
    Hear(kNodes);
  }
  // The first `count` nodes say what they were asked to run.
  void Hear(uint32_t count) {
    for (uint32_t i = 1; i <= count; ++i) {
      input::Sync sync{.node = NodeId{i}, .incarnation = 7, .sync_seq = ++seq};
      sync.inventory.resources.cpu = kUnit;
      for (const DesiredAttempt& desired : DesiredFor(core.world, sync.node))
        sync.observed.push_back({desired.fence, Observed::Phase::kRunning, 4242});
      Do(sync);
    }
  }
  // Time passes, in which only the first `heard` nodes are heard.
  void Pass(Millis span, uint32_t heard) {
    for (const Millis end = now + span; now < end;) {
      now += 100;
      Do(input::Tick{});
      Hear(heard);
    }
  }
  size_t Lost() const {
    size_t lost = 0;
    for (const auto& [id, one] : core.world.state.nodes) lost += one.lost ? 1 : 0;
    return lost;
  }
};

TEST_CASE("one node of many that falls silent is lost in time") {
  Fleet fleet;
  fleet.Pass(limits::kLostAfter + 100, 4);
  CHECK(fleet.Lost() == 1);
}

TEST_CASE("two of five are lost in time: too few for the breaker") {
  Fleet fleet;
  fleet.Pass(limits::kLostAfter + 100, 3);
  CHECK(fleet.Lost() == 2);
}

TEST_CASE("when most vanish at once nobody is lost, and all go on when they are back") {
  Fleet fleet;
  fleet.Pass(20'000, 0);
  CHECK(fleet.Lost() == 0);
  CHECK(fleet.core.soft.frozen_at > 0);
  fleet.Pass(5'000, 5);
  CHECK(fleet.Lost() == 0);
  for (uint32_t trial = 0; trial < Fleet::kNodes; ++trial)
    CHECK(fleet.TrialOf(trial).runs.live()->number == 1);
}

TEST_CASE("the breaker holds for its time and not longer") {
  Fleet fleet;
  fleet.Pass(limits::kFreezeMax, 1);
  CHECK(fleet.Lost() == 0);
  fleet.Pass(limits::kLostAfter + 200, 1);
  CHECK(fleet.Lost() == 4);
  CHECK(fleet.core.soft.frozen_at == 0);
}

TEST_CASE("of many that vanished, the few that stay away get a grace once the others are back") {
  Fleet fleet;
  fleet.Pass(5'000, 0);
  CHECK(fleet.Lost() == 0);
  fleet.Pass(limits::kRestartGrace - 200, 4);
  CHECK(fleet.Lost() == 0);
  fleet.Pass(limits::kSuspectAfter + 400, 4);
  CHECK(fleet.Lost() == 1);
}

TEST_CASE("a second wave has a breaker of its own") {
  Fleet fleet;
  fleet.Pass(limits::kFreezeMax + limits::kLostAfter + 200, 0);
  CHECK(fleet.Lost() == 5);
  fleet.Pass(1'000, 5);
  CHECK(fleet.Lost() == 0);
  fleet.Pass(20'000, 0);
  CHECK(fleet.Lost() == 0);
}

TEST_CASE("a daemon that still calls long after a later one came is said to be a second one") {
  Story story;
  story.Sync();
  auto say = [&](uint64_t incarnation, uint64_t seq) {
    input::Sync sync = story.SyncInput();
    sync.incarnation = sync.inventory.incarnation = incarnation;
    sync.sync_seq = seq;
    story.Do(sync);
  };
  auto reason = [&] {
    const Json node = *NodeView(story.core, {}, story.node);
    return node.GetString("reason");
  };
  say(100, 1);
  say(101, 1);
  say(100, 2);  // Late, as at every change.
  story.now += limits::kRivalAfter;
  say(101, 2);
  say(100, 2);  // Doubled by the network.
  CHECK(reason().empty());
  say(100, 3);
  CHECK(reason().find("two programs have this node's certificate") == 0);
  // The later one is silent, and the older one is not listened to.
  for (uint64_t seq = 4; seq < 4 + 10 * limits::kLostAfter / 1'000; ++seq) {
    story.now += 200;
    say(100, seq);
    story.Do(input::Tick{});
  }
  const Node& node = story.core.world.state.nodes.at(story.node);
  CHECK(node.lost);
  CHECK(reason().find("it fell silent; two programs") == 0);
  story.now += limits::kRivalSaid + 1;
  say(102, 1);
  CHECK(!node.lost);
  CHECK(reason().empty());
}

TEST_CASE("a broken checkpoint is retired, and the one before is used; nobody is blamed") {
  Story story;
  story.Create(R"(,"metric":"loss","mode":"min")");
  story.SyncTwice();
  for (uint64_t seq = 1; seq <= 2; ++seq) {
    input::CommitCheckpoint commit{.fence = story.FenceOf(0)};
    commit.row = {seq, static_cast<double>(seq), 1, story.now, R"({"loss":0.5})"};
    commit.manifest = "manifest-" + std::to_string(seq);
    REQUIRE(story.Do(commit).verdict.ok());
  }
  story.Exit(story.FenceOf(0), 1, 2, false);  // Its machine lost it.
  const Fence second = story.FenceOf(0, 2);
  REQUIRE(FindLive(story.core.world.state, second.attempt)->checkpoint == 2);
  Observed& broken = story.running[second];
  broken = {second, Observed::Phase::kExited};
  broken.launch_failed = broken.broken_checkpoint = true;
  broken.reason = "the checkpoint is broken";
  story.Sync();
  const Trial& trial = story.TrialOf(0);
  REQUIRE(trial.runs.live() != nullptr);
  CHECK(trial.runs.live()->number == 3);
  CHECK(trial.runs.live()->checkpoint == 1);
  CHECK(trial.runs.failures == 0);
  CHECK(trial.runs.checkpoints.size() == 1);
}

TEST_CASE("a call number far ahead of a daemon's own is refused, and changes nothing") {
  Story story;
  story.Sync();
  const uint64_t newest = story.sync_seq;
  input::Sync made_up = story.SyncInput();
  for (const uint64_t seq : {UINT64_MAX, newest + limits::kSyncSeqJump + 1}) {
    made_up.sync_seq = seq;
    const Outcome refused = story.Do(made_up);
    CHECK(absl::IsFailedPrecondition(refused.verdict));
    CHECK(refused.records.empty());
  }
  CHECK(story.core.soft.nodes.at(story.node).sync_seq == newest);
  made_up.incarnation = made_up.inventory.incarnation = 8;  // The head has not heard it.
  made_up.sync_seq = limits::kSyncSeqFirst + 1;
  CHECK(absl::IsFailedPrecondition(story.Do(made_up).verdict));
  CHECK(story.core.soft.nodes.at(story.node).incarnation == 7);
  CHECK(story.Do(story.SyncInput()).verdict.ok());
}

TEST_CASE("the daemon is heard again once its calls have passed the number that was made up") {
  Story story;
  story.Sync();
  input::Sync made_up = story.SyncInput();
  made_up.sync_seq = story.sync_seq + limits::kSyncSeqJump / 2;
  REQUIRE(story.Do(made_up).verdict.ok());
  story.now += 300;
  input::Sync own = story.SyncInput();
  REQUIRE(story.Do(own).verdict.ok());  // Late, as far as the head can tell.
  CHECK(story.core.soft.nodes.at(story.node).last_seen_at < story.now);
  own.sync_seq = story.core.soft.nodes.at(story.node).sync_seq + 1;
  REQUIRE(story.Do(own).verdict.ok());
  CHECK(story.core.soft.nodes.at(story.node).last_seen_at == story.now);
}

TEST_CASE("a connection that closes says nothing when a newer call has come on another one") {
  Story story;
  story.Sync();
  const uint64_t newest = story.sync_seq;
  REQUIRE(story.Do(input::Disconnected{story.node, 7, newest - 1}).verdict.ok());
  CHECK(story.core.soft.nodes.at(story.node).connected);
  REQUIRE(story.Do(input::Disconnected{story.node, 7, newest}).verdict.ok());
  CHECK(!story.core.soft.nodes.at(story.node).connected);
}

}  // namespace
}  // namespace rt
