// A head whose journal is an older copy, or lacks its end.
#include "tests/unit/core_story.h"

using namespace rt;

namespace {

// The state as it was when it was copied, and a head that starts with it.
void Restore(Story& story, const World& copy, bool restored = false) {
  story.core = {};
  story.core.world.state = copy.state;
  Reindex(story.core.world);
  story.shadow = copy;
  Reindex(story.shadow);
  story.answers = AnswerChecker(story.shadow);
  input::StartHead start{"c", "test", "1"};
  start.restored = restored;
  story.Do(start);
}

// What the worker says that had the last reply from the head as it is now.
input::Sync Told(Story& story) {
  input::Sync sync = story.SyncInput();
  sync.seen_epoch = story.core.world.state.epoch;
  sync.seen_seq = story.core.world.state.seq;
  return sync;
}

Json Cluster(const Story& story) {
  return StatusView(story.core, {.now = story.now})["cluster"];
}

}  // namespace

TEST_CASE("history: a worker that knows a missing end of the journal is heard") {
  Story story;
  story.Create("");
  const World copy = story.core.world;
  story.SyncTwice();
  const ExperimentId lost = story.Create(R"(,"num_samples":2)");
  input::Sync told = Told(story);
  Restore(story, copy);
  CHECK(Cluster(story)["rolled_back"].is_null());
  told.observed.clear();
  const Outcome outcome = story.Do(told);
  CHECK(outcome.verdict.ok());
  REQUIRE(std::holds_alternative<event::HeadRolledBack>(outcome.records.front().event));
  const Json rolled_back = Cluster(story)["rolled_back"];
  CHECK(rolled_back.GetInt("seq") == static_cast<int64_t>(copy.state.seq));
  CHECK(rolled_back.GetInt("records_lost") ==
        static_cast<int64_t>(told.seen_seq - copy.state.seq));
  // Nothing that may run somewhere has a number that is given out again.
  CHECK(story.Create(R"(,"num_samples":3)").value > lost.value);
  CHECK(story.TrialOf(0).runs.next_attempt > 1'000);
  // It is said once.
  for (const Record& record : story.Do(told).records)
    CHECK_FALSE(std::holds_alternative<event::HeadRolledBack>(record.event));
}

TEST_CASE("history: a restart that lost nothing finds nothing missing") {
  Story story;
  story.Create("");
  const input::Sync told = Told(story);
  Restore(story, World(story.core.world));
  const Outcome outcome = story.Do(told);
  CHECK(outcome.verdict.ok());
  for (const Record& record : outcome.records)
    CHECK_FALSE(std::holds_alternative<event::HeadRolledBack>(record.event));
  CHECK(Cluster(story)["rolled_back"].is_null());
}

TEST_CASE("history: a head of an older epoch, or of the same, is not believed and says so") {
  Story story;
  story.Create("");
  const World copy = story.core.world;
  const int starts = GENERATE(1, 2);  // Since the copy was made.
  for (int i = 0; i < starts; ++i) Restore(story, World(story.core.world));
  const input::Sync told = Told(story);
  Restore(story, copy);
  const Outcome outcome = story.Do(told);
  CHECK(absl::IsUnavailable(outcome.verdict));
  CHECK(MessageOf(outcome.verdict).find("--restored") != std::string::npos);
  CHECK(outcome.records.empty());
  CHECK(Cluster(story)["other_head"].GetString("heard_by") == "n1");

  Restore(story, copy, true);
  CHECK(story.Do(told).verdict.ok());
  CHECK(Cluster(story)["other_head"].is_null());
}

TEST_CASE("history: a worker that heard no head before this one has no other") {
  Story story;
  Restore(story, World(story.core.world));  // The answer to its first Sync was lost.
  CHECK(story.Do(story.SyncInput()).verdict.ok());
  CHECK(story.Do(Told(story)).verdict.ok());
  CHECK(Cluster(story)["other_head"].is_null());
}

TEST_CASE("history: a head with the epoch of another judges no rows and no checkpoints") {
  Story story;
  story.Create("");
  const World copy = story.core.world;
  Restore(story, copy);
  story.SyncTwice();
  const RowBatch row{story.FenceOf(0).attempt, 0, {{1, 1, 1, story.now, R"({"loss":1})"}}};
  const input::Report report{
      .node = story.node, .batches = {row}, .seen_epoch = story.core.world.state.epoch};
  input::CommitCheckpoint commit{.node = story.node, .fence = story.FenceOf(0)};
  commit.seen_epoch = report.seen_epoch;

  Restore(story, copy);
  CHECK(CheckNewest(story.core, story.node, report.seen_epoch).code() ==
        absl::StatusCode::kUnavailable);
  const Outcome outcome = story.Do(report);
  CHECK(absl::IsUnavailable(outcome.verdict));
  CHECK(outcome.answer.verdicts.empty());
  CHECK(MessageOf(story.Do(commit).verdict).find("another head") != std::string::npos);
}

TEST_CASE("history: a node that joins, or whose daemon starts anew, is believed") {
  Story story;
  input::Sync told = Told(story);
  Restore(story, World(story.core.world));
  CHECK(story.Do(told).verdict.ok());
  CHECK(story.Do(Told(story)).verdict.ok());  // It has heard this head since.
  input::Sync anew = Told(story);
  anew.incarnation = anew.inventory.incarnation = 8;
  CHECK(story.Do(anew).verdict.ok());
  story.Do(input::CreateToken{"tok2", "worker", 1000, ""});
  input::Sync newcomer = Told(story);  // Its state directory remembers what it was before.
  newcomer.node = story.Do(input::UseToken{"tok2", "n2"}).answer.node;
  CHECK(story.Do(newcomer).verdict.ok());
}

TEST_CASE("core: a pattern that is refused today stops no head that finds it in its journal") {
  for (const std::string text : {R"x("metric":"m","report_regex":"loss=(\\S+)(?=x)")x",
                                 R"x("retry":[{"log":"(?:a?){9000}b","then":"fail"}])x"}) {
    Story story;
    const std::string spec = R"({"experiment":"e","command":["x"],)" + text + "}";
    const Outcome refused = story.Do(input::CreateExperiment{
        .spec = spec, .request_key = "k", .drawn_seed = 9, .results_root = "/r"});
    CHECK(refused.verdict.code() == absl::StatusCode::kInvalidArgument);
    CHECK(refused.records.empty());
    // As a head of before this check has journalled it.
    World& world = story.core.world;
    Apply(world, {world.state.seq + 1, story.now,
                  event::ExperimentCreated{.experiment = {1}, .spec = spec, .seed = 9,
                                           .results_dir = "/r/e"}});
    CHECK(world.index.experiments.at({1}).spec.name == "e");
    World loaded{.state = world.state};
    Reindex(loaded);
    CheckInvariants(story.core);
  }
}
