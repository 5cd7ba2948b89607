// Resizes: what the stories of tests/scenario do not show.
#include "head/core/draft.h"
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

struct Resizing : Story {
  Owner owner = Owner::Of(TrialId{{1}, 0});

  const Attempt& live() const { return *FindRuns(core.world.state, owner)->live(); }
  absl::Status Resize(uint32_t ranks, Millis within = 1'000) {
    return Do(input::ResizeRun{owner, ranks, within}).verdict;
  }
};

}  // namespace

TEST_CASE("resize: a head that starts from a snapshot still holds what an attempt is to grow by") {
  Resizing story;
  story.Create(R"(,"resources":{"cpu":1})");
  story.SyncTwice();
  REQUIRE(story.Resize(2).ok());
  World restarted;
  restarted.state = story.core.world.state;
  Reindex(restarted);
  CHECK(restarted.index.nodes.at(story.node).used.cpu == 2 * kUnit);
  CHECK(restarted.index.nodes.at(story.node).claims.size() == 1);
  CHECK(restarted.index.resizing.size() == 1);

  story.SaveAndEnd();
  CHECK(story.live().generation == 2);
  restarted.state = story.core.world.state;
  Reindex(restarted);  // Its request is for two ranks now.
  CHECK(RequestOf(restarted, story.owner).ranks == 2);
  CHECK(restarted.index.nodes.at(story.node).used.cpu == 2 * kUnit);
  CHECK(restarted.index.resizing.empty());
}

TEST_CASE("resize: generations that a lost end of the journal may have begun are skipped") {
  Resizing story;
  story.Create(R"(,"resources":{"cpu":1})");
  story.SyncTwice();
  story.Take({story.core.world.state.seq + 1, story.now, event::HeadRolledBack{story.node, 1, 99}});
  REQUIRE(story.Resize(2).ok());
  story.SaveAndEnd();
  CHECK(story.live().number == 1);
  CHECK(story.live().generation == 1'002);
}

TEST_CASE("resize: rows, rungs and outputs say of which generation they are") {
  Resizing story;
  story.Create(R"(,"resources":{"cpu":1})");
  story.SyncTwice();
  REQUIRE(story.Resize(2).ok());
  story.SaveAndEnd();
  const Trial& trial = *FindTrial(story.core.world.state, story.owner.trial());
  const AttemptId first{story.owner, 1, 1}, second{story.owner, 1, 2};
  CHECK(trial.Counts(first, 1));
  CHECK_FALSE(trial.Counts(first, 2));  // After the checkpoint.
  CHECK(trial.Counts(second, 2));
  CHECK(trial.runs.checkpoints.back().IsOf(trial.runs.attempts.front()));
  CHECK_FALSE(trial.runs.checkpoints.back().IsOf(story.live()));
  const Fence fence{first, 0};
  const input::KeepOutputs keep{story.node, fence, {.manifest = "o", .files = 1}};
  CHECK(story.Do(keep).verdict.ok());
  CHECK(trial.runs.outputs.front().resizes == 0);
}

TEST_CASE("resize: a strategy holds for the ranks that are added") {
  Resizing story;  // One node of two cpus: no second node for STRICT_SPREAD.
  story.Create(R"(,"resources":{"cpu":0.5,"ranks":1,"strategy":"STRICT_SPREAD"})");
  story.SyncTwice();
  const absl::Status refused = story.Resize(2);
  CHECK(MessageOf(refused) ==
        "trial 1/0 cannot be resized: no capacity for 1 more rank of 0.5 cpus");
}

TEST_CASE("resize: the time to save has bounds") {
  Resizing story;
  story.Create(R"(,"resources":{"cpu":1})");
  story.SyncTwice();
  CHECK(MessageOf(story.Resize(2, 0)) == "the time to save is between 1 ms and 60 min");
  CHECK(!story.Resize(2, limits::kResizeSaveMost + 1).ok());
  CHECK(!story.Resize(static_cast<uint32_t>(limits::kBundlesMax) + 1).ok());
}
