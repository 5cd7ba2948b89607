#include "head/service/sweeper.h"

#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/mem_store.h"
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
