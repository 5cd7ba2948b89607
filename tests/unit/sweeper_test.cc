#include "head/service/sweeper.h"

#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/dir_store.h"
#include "common/cas/mem_store.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "tests/temp_dir.h"
#include "tests/unit/loop_harness.h"

using namespace rt;

namespace {

// Remembers what it was told to keep.
class Remembering : public SweptStore {
 public:
  std::vector<std::set<std::string>> kept;
  std::vector<Millis> graces;
  std::atomic<bool> is_short = false;
  bool stays_short = false;
  MemStore store;

  bool IsShortOfSpace() const override { return is_short; }
  absl::StatusOr<Swept> Sweep(const std::set<std::string>& live, Millis grace) override {
    kept.push_back(live);
    graces.push_back(grace);
    is_short = stays_short;
    return Swept{};
  }
  absl::StatusOr<std::vector<std::string>> FindMissing(
      const std::vector<std::string>& digests) override {
    return store.FindMissing(digests);
  }
  absl::Status PutChunk(const std::string& digest, std::string_view bytes) override {
    return store.PutChunk(digest, bytes);
  }
  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    return store.GetChunk(digest);
  }
  absl::StatusOr<std::string> PutManifest(std::string_view text) override {
    return store.PutManifest(text);
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return store.GetManifest(digest);
  }
};

constexpr SweepTimes kByHand = {.every = 3'600'000, .grace = 3'600'000};

ExperimentId Create(Harness& harness, const std::string& more) {
  auto posted = harness.Post(input::CreateExperiment{
      .spec = R"({"experiment":"e","command":["x"])" + more + "}", .request_key = more,
      .drawn_seed = 9, .results_root = "/r"});
  Answered answered = Wait(posted);
  INFO(answered.status.ToString());
  REQUIRE(answered.status.ok());
  return answered.answer.experiment;
}

}  // namespace

TEST_CASE("sweeper: bundles, inputs and checkpoints live; what was retired dies a round later") {
  Harness harness;
  const std::string bundle = Digest("bundle"), job_bundle = Digest("job"), input = Digest("input");
  auto job = harness.Post(input::SubmitJob{
      "me", R"({"name":"j","argv":["true"],"bundle":")" + job_bundle + "\"}", "key"});
  REQUIRE(Wait(job).status.ok());
  const NodeId node = harness.Join();
  harness.Settle(node);
  Create(harness, R"(,"checkpoints":{"num_to_keep":1},"bundle":")" + bundle +
                      R"(","inputs":[{"manifest":")" + input + R"(","env":"RT_TRAINABLE"}])");
  const Fence fence{{Owner::Of(TrialId{{1}, 0}), 1, 1}, 0};
  WaitFor([&] {
    bool placed = false;
    harness.Read([&](const Core& core) {
      placed = FindLive(core.world.state, fence.attempt) != nullptr;
    });
    return placed;
  });
  auto commit = [&](uint64_t seq, const std::string& manifest) {
    auto posted = harness.Post(input::CommitCheckpoint{
        node, fence, manifest, {seq, static_cast<double>(seq), 1, 1, "{}"}, 10});
    Answered answered = Wait(posted);
    INFO(answered.status.ToString());
    REQUIRE(answered.status.ok());
  };
  Remembering store;
  BlobSweeper sweeper(*harness.loop, store, kByHand);
  commit(1, Digest("first"));
  REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.kept.empty());  // The first round only looks.
  commit(2, Digest("second"));  // Retires the first.
  REQUIRE(sweeper.RunOnce().ok());
  REQUIRE(store.kept.size() == 1);
  CHECK(store.kept[0] == std::set<std::string>{bundle, job_bundle, input, Digest("first"),
                                               Digest("second")});
  REQUIRE(sweeper.RunOnce().ok());
  REQUIRE(store.kept.size() == 2);
  CHECK(store.kept[1] == std::set<std::string>{bundle, job_bundle, input, Digest("second")});
}

namespace {

// A worker's part in the life of attempts: they run, end, and leave outputs.
struct Runner {
  Harness& harness;
  NodeId node;
  SyncReply seen = {};

  void Say(std::vector<Observed> observed) {
    auto sync = harness.Sync(node, seen, 0, std::move(observed));
    seen = Wait(sync);
  }
  Fence Await(const Owner& owner, uint32_t attempt, uint32_t rank = 0) {
    const Fence fence{{owner, attempt, 1}, rank};
    WaitFor([&] {
      bool placed = false;
      harness.Read([&](const Core& core) {
        placed = FindLive(core.world.state, fence.attempt) != nullptr;
      });
      return placed;
    });
    return fence;
  }
  void End(const Fence& fence, int code) {
    Say({{.fence = fence, .phase = Observed::Phase::kRunning, .pid = 1}});
    Say({{.fence = fence, .phase = Observed::Phase::kExited, .pid = 1, .exit_code = code}});
  }
  void Keep(const Fence& fence, const std::string& manifest) {
    auto posted = harness.Post(
        input::KeepOutputs{node, fence, {.manifest = manifest, .files = 1}, seen.epoch});
    const Answered answered = Wait(posted);
    INFO(answered.status.ToString());
    REQUIRE(answered.status.ok());
  }
};

}  // namespace

TEST_CASE("sweeper: outputs live until those of a later attempt are kept, also of what is over") {
  Harness harness;
  Runner runner{harness, harness.Join()};
  runner.Say({});
  Create(harness, R"(,"max_failures":1)");
  const Owner trial = Owner::Of(TrialId{{1}, 0});
  const std::string first = Digest("first"), second = Digest("second"), own = Digest("job");
  Remembering store;
  BlobSweeper sweeper(*harness.loop, store, kByHand);
  const auto marked = [&] {  // By two rounds: what the one before the last saw is marked, too.
    REQUIRE(sweeper.RunOnce().ok());
    REQUIRE(sweeper.RunOnce().ok());
    return store.kept.back();
  };
  const Fence failed = runner.Await(trial, 1);
  runner.End(failed, 3);
  runner.Keep(failed, first);
  CHECK(marked() == std::set<std::string>{first});
  const Fence done = runner.Await(trial, 2);
  CHECK(marked() == std::set<std::string>{first});  // The second attempt has written nothing yet.
  runner.End(done, 0);
  CHECK(marked() == std::set<std::string>{first});
  runner.Keep(done, second);
  REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.kept.back() == std::set<std::string>{first, second});
  CHECK(marked() == std::set<std::string>{second});
  auto job = harness.Post(input::SubmitJob{"me", R"({"name":"j","argv":["true"]})", "key"});
  REQUIRE(Wait(job).status.ok());
  const Fence ran = runner.Await(Owner::Of(JobId{1}), 1);
  runner.End(ran, 0);
  runner.Keep(ran, own);
  harness.Read([&](const Core& core) {
    CHECK(core.world.state.jobs.at({1}).end == JobEnd::kSucceeded);
    CHECK(core.world.state.experiments.at({1}).finishing);
  });
  CHECK(marked() == std::set<std::string>{second, own});
}

TEST_CASE("sweeper: the bytes of outputs go with them, unless something else has the same") {
  Harness harness;
  Runner runner{harness, harness.Join()};
  runner.Say({});
  Create(harness, R"(,"max_failures":1)");
  const Owner trial = Owner::Of(TrialId{{1}, 0});
  TempDir dir("swept");
  auto store = DirStore::Open(dir.path() + "/store");
  REQUIRE(store.ok());
  const auto push = [&](const std::string& name, const std::string& text) {
    const std::string tree = dir.path() + "/" + name;
    REQUIRE(EnsureDirectory(tree + "/work").ok());
    REQUIRE(WriteFileAtomic(tree + "/work/shared", "shared").ok());
    REQUIRE(WriteFileAtomic(tree + "/work/own", text).ok());
    const auto stored = StoreTree(**store, tree, {});
    REQUIRE(stored.ok());
    return stored->manifest;
  };
  const std::string first = push("first", "one"), second = push("second", "two");
  // Nothing is young enough to be spared.
  BlobSweeper sweeper(*harness.loop, **store, {.every = 3'600'000, .grace = -1'000});
  const auto sweep = [&] {
    for (int i = 0; i < 3; ++i) REQUIRE(sweeper.RunOnce().ok());
  };
  const auto is_whole = [&](const std::string& manifest) {
    TempDir to("restored");
    return RestoreTree(**store, manifest, to.path()).ok();
  };
  const Fence failed = runner.Await(trial, 1);
  runner.End(failed, 3);
  runner.Keep(failed, first);
  const Fence done = runner.Await(trial, 2);
  runner.End(done, 0);
  runner.Keep(done, second);
  sweep();
  CHECK_FALSE((*store)->GetManifest(first).ok());
  CHECK_FALSE((*store)->GetChunk(Digest("one")).ok());
  CHECK(is_whole(second));
  sweep();
  CHECK(is_whole(second));
}

TEST_CASE("sweeper: every trial is looked at, however many turns it takes, and rest follows") {
  Harness harness;
  const size_t experiments = 3;
  for (size_t i = 0; i < experiments; ++i)
    Create(harness, R"(,"num_samples":700,"bundle":")" + Digest(std::to_string(i)) + "\"");
  WaitFor([&] {
    size_t trials = 0;
    harness.Read([&](const Core& core) {
      for (const auto& [id, experiment] : core.world.state.experiments)
        trials += experiment.trials.size();
    });
    return trials == experiments * 700;
  });
  Remembering store;
  BlobSweeper sweeper(*harness.loop, store, kByHand);
  for (int i = 0; i < 40; ++i) REQUIRE(sweeper.RunOnce().ok());
  REQUIRE(!store.kept.empty());
  CHECK(store.kept.back().size() == experiments);
  CHECK(store.kept.size() < 10);  // Nothing happens any more: no sweep would find anything.
}

TEST_CASE("sweeper: while pushes wait for room it hurries, and not for ever") {
  Harness harness;
  Remembering store;
  BlobSweeper sweeper(*harness.loop, store, kByHand);
  REQUIRE(sweeper.RunOnce().ok());
  REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.graces == std::vector<Millis>{kByHand.grace});
  CHECK(sweeper.NextRound() == kByHand.every);
  store.is_short = true;
  CHECK(sweeper.NextRound() == kByHand.every_when_short);
  REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.graces.back() == kByHand.grace_when_short);
  CHECK(sweeper.NextRound() == kByHand.every_when_short);
  for (int i = 0; i < 8; ++i) REQUIRE(sweeper.RunOnce().ok());
  CHECK(sweeper.NextRound() == kByHand.every);
}

TEST_CASE("sweeper: what is full of what lives is looked through no more often than at rest") {
  Harness harness;
  Remembering store;
  store.is_short = store.stays_short = true;
  BlobSweeper sweeper(*harness.loop, store, {.every = 200'000, .grace = 3'600'000});
  for (int i = 0; i < 22; ++i) REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.kept.size() == 3);  // At once, and after every ten hurried rounds.
  CHECK(sweeper.NextRound() == SweepTimes().every_when_short);
  Create(harness, R"(,"bundle":")" + Digest("new") + "\"");
  REQUIRE(sweeper.RunOnce().ok());
  CHECK(store.kept.size() == 4);  // Something changed.
}
