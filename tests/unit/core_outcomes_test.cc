// Several objectives, constraints, parameters with conditions and results of earlier searches: what
// the core makes of them.
#include "common/base/status.h"
#include "head/core/lane.h"
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kTwoObjectives[] =
    R"(,"space":{"x":{"uniform":[0,1]}},"metric":["loss","speed"],"mode":["min","max"],)"
    R"("constraints":{"memory":{"<=":8}},"num_samples":4,"max_concurrent":2)";

std::string RowOf(double loss, double speed, double memory) {
  return Json::MakeObject({{"loss", loss}, {"speed", speed}, {"memory", memory}}).Dump();
}

const Experiment& ExperimentOf(const Story& story, uint64_t id = 1) {
  return story.core.world.state.experiments.at(ExperimentId{id});
}

const ExperimentIndex& IndexOf(const Story& story, uint64_t id = 1) {
  return story.core.world.index.experiments.at(ExperimentId{id});
}
const ExperimentSpec& SpecOfExperiment(const Story& story, uint64_t id = 1) {
  return IndexOf(story, id).spec;
}

Json ViewOf(const Story& story) {
  return *ExperimentView(story.core, {.now = story.now}, ExperimentId{1});
}

}  // namespace

TEST_CASE("outcomes: a trial counts with its newest row, and its best row keeps the constraints") {
  Story story;
  story.Create(kTwoObjectives);
  story.SyncTwice();
  story.Report(story.FenceOf(0), 1, RowOf(1, 1, 9));
  CHECK_FALSE(story.TrialOf(0).has_best);
  story.Report(story.FenceOf(0), 2, RowOf(2, 5, 8));
  CHECK(story.TrialOf(0).best == 2);
  story.Report(story.FenceOf(0), 3, RowOf(0.5, 6, 10));
  CHECK(story.TrialOf(0).best == 2);
  story.Exit(story.FenceOf(0), 0, 3);
  const TrialResult result = ResultsOf(ExperimentOf(story), IndexOf(story))[0];
  CHECK(result.kind == TrialResult::Kind::kValue);
  CHECK(result.outcome == std::vector<double>{0.5, 6, 10});
  World restarted = story.core.world;
  Reindex(restarted);
  CHECK(ResultsOf(ExperimentOf(story), restarted.index.experiments.at(ExperimentId{1}))[0] ==
        result);
  const Json view = ViewOf(story);
  CHECK(view.Find("objectives")->Dump() ==
        R"([{"metric":"loss","mode":"min"},{"metric":"speed","mode":"max"}])");
  CHECK(view.Find("constraints")->Dump() == R"({"memory":{"<=":8.0}})");
  CHECK(view.Find("best")->GetDouble("value") == 2);
}

TEST_CASE("outcomes: a row without an objective or a constraint's key fails its trial") {
  for (const char* row : {R"({"loss":1,"memory":2})", R"({"loss":1,"speed":2})"}) {
    Story story;
    story.Create(kTwoObjectives);
    story.SyncTwice();
    story.Report(story.FenceOf(0), 1, RowOf(1, 1, 1));
    CHECK(story.Report(story.FenceOf(0), 2, row).stop);
    story.Exit(story.FenceOf(0), 143, 2);
    CHECK(story.StateOf(0) == "FAILED");
    CHECK(story.TrialOf(0).reason.ends_with("(at step 2)"));
    const auto results = ResultsOf(ExperimentOf(story), IndexOf(story));
    CHECK(results[0].kind == TrialResult::Kind::kBad);
    CHECK(IndexOf(story).outcomes.at(0).empty());
    REQUIRE(story.Do(input::RetryTrial{TrialId{{1}, 0}}).verdict.ok());
    CHECK_FALSE(IndexOf(story).outcomes.contains(0));
  }
}

TEST_CASE("outcomes: a trial that ended without a row has no value") {
  Story story;
  story.Create(std::string(kTwoObjectives));
  story.SyncTwice();
  story.Exit(story.FenceOf(0), 0, 0);
  const auto results = ResultsOf(ExperimentOf(story), IndexOf(story));
  CHECK(results[0].kind == TrialResult::Kind::kBad);
  CHECK(results[0].outcome.empty());
}

TEST_CASE("conditions: a trial's command has the arguments that its configuration has") {
  Story story;
  const Outcome created = story.Do(input::CreateExperiment{
      .spec = R"({"experiment":"e","command":["x","--m=${momentum}","--b=${adam/beta}"],
          "space":{"kind":{"choice":["sgd","adam"]},
                   "momentum":{"uniform":[0,1],"if":{"kind":"sgd"}},
                   "adam":{"if":{"kind":"adam"},"beta":{"uniform":[0,1]}}},
          "search":{"basic":{"points":[{"kind":"sgd"},{"kind":"adam"}]}},"num_samples":2})",
      .request_key = "k",
      .drawn_seed = 9,
      .results_root = "/r"});
  REQUIRE(created.verdict.ok());
  story.SyncTwice();
  std::vector<std::string> second;
  for (const DesiredAttempt& desired : DesiredFor(story.core.world, story.node)) {
    const LaunchSpec launch = LaunchSpecFor(story.core.world, desired.fence);
    INFO(launch.refusal);
    REQUIRE(launch.argv.size() == 2);
    second.push_back(launch.argv[1].substr(0, 4));
  }
  CHECK(second == std::vector<std::string>{"--m=", "--b="});
}

TEST_CASE("warm start: the results of an earlier experiment are journalled with the new one") {
  constexpr char kOld[] =
      R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","num_samples":3)";
  Story story;
  story.Create(kOld);
  story.SyncTwice();
  for (uint32_t number = 0; number < 3; ++number) {
    if (number == 1) {
      story.Exit(story.FenceOf(number), 1, 0);  // It failed: no result.
      continue;
    }
    story.Report(story.FenceOf(number), 1, Json::MakeObject({{"loss", number}}).Dump());
    story.Exit(story.FenceOf(number), 0, 1);
  }
  const std::string warm =
      R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","num_samples":3,)"
      R"("search":{"tpe":{"warm_start":[1],"evaluated":[{"config":{"x":0.5},"value":7}]}})";
  const ExperimentId id = story.Create(warm);
  const Json* evaluated = SpecOfExperiment(story, id.value).search.options.Find("evaluated");
  REQUIRE(evaluated->array().size() == 3);
  CHECK(evaluated->array()[0].GetDouble("value") == 7);
  CHECK(evaluated->array()[1].Find("config")->Dump() == story.TrialOf(0).params);
  CHECK(evaluated->array()[2].GetDouble("value") == 2);
  CHECK(SpecOfExperiment(story, id.value).search.options.Find("warm_start")->array().empty());
}

TEST_CASE("warm start: of large configurations as many results are taken as a spec has bytes for") {
  const std::string blob(100'000, 'x');
  const std::string old = R"(,"space":{"x":{"uniform":[0,1]},"y":")" + blob +
                          R"("},"metric":"loss","mode":"min","num_samples":12)";
  Story story;
  story.Create(old);
  story.SyncTwice();
  for (uint32_t number = 0; number < 12; ++number) {
    story.Report(story.FenceOf(number), 1, Json::MakeObject({{"loss", 12 - number}}).Dump());
    story.Exit(story.FenceOf(number), 0, 1);
  }
  const ExperimentId id = story.Create(
      R"(,"space":{"x":{"uniform":[0,1]},"y":"y"},"metric":"loss","mode":"min","num_samples":3,)"
      R"("search":{"tpe":{"warm_start":[1]}})");
  const Json* evaluated = SpecOfExperiment(story, id.value).search.options.Find("evaluated");
  REQUIRE(evaluated->array().size() == 6);
  CHECK(evaluated->array()[5].GetDouble("value") == 1);
}

TEST_CASE("warm start: results outside the new space are left out") {
  Story story;
  story.Create(R"(,"space":{"x":{"grid":[1,2.5,5]}},"metric":"loss","mode":"min","num_samples":1)");
  story.SyncTwice();
  for (uint32_t number = 0; number < 3; ++number) {
    story.Report(story.FenceOf(number), 1, R"({"loss":1})");
    story.Exit(story.FenceOf(number), 0, 1);
  }
  const auto warm = [](const char* domain) {
    return std::string(R"(,"space":{"x":)") + domain +
           R"(},"metric":"loss","mode":"min","num_samples":3,"search":{"tpe":{"warm_start":[1],)"
           R"("evaluated":[{"config":{"x":8},"value":0}]}})";
  };
  const auto evaluated = [&](const char* domain) {
    const ExperimentId id = story.Create(warm(domain));
    return SpecOfExperiment(story, id.value).search.options.Find("evaluated")->Dump();
  };
  CHECK(evaluated(R"({"uniform":[0,2]})") ==
        R"([{"config":{},"value":0},{"config":{"x":1},"value":1.0}])");
  CHECK(evaluated(R"({"randint":[0,5]})") ==
        R"([{"config":{},"value":0},{"config":{"x":1},"value":1.0}])");
  CHECK(evaluated(R"({"quniform":[0,8,0.5]})") ==
        R"([{"config":{"x":8},"value":0},{"config":{"x":1},"value":1.0},)"
        R"({"config":{"x":2.5},"value":1.0},{"config":{"x":5},"value":1.0}])");
  CHECK(evaluated(R"({"randn":[0,1]})") ==
        R"([{"config":{"x":8},"value":0},{"config":{"x":1},"value":1.0},)"
        R"({"config":{"x":2.5},"value":1.0},{"config":{"x":5},"value":1.0}])");
  const auto refused = story.Do(input::CreateExperiment{
      .spec = R"({"experiment":"e","command":["x"])" + warm(R"({"uniform":[3,4]})") + "}",
      .request_key = "none",
      .drawn_seed = 9,
      .results_root = "/r"});
  CHECK(MessageOf(refused.verdict) ==
        "search/tpe/warm_start: no configuration of the earlier trials lies in this space");
}

TEST_CASE("warm start: an experiment that cannot be learned from is refused") {
  Story story;
  story.Create(R"(,"space":{"x":{"uniform":[0,1]}},"metric":"loss","mode":"min","num_samples":3)");
  const auto refused = [&](const std::string& more) {
    return MessageOf(
        story
            .Do(input::CreateExperiment{
                .spec =
                    R"({"experiment":"e","command":["x"],"space":{},"num_samples":3,)" + more + "}",
                .request_key = more,
                .drawn_seed = 9,
                .results_root = "/r"})
            .verdict);
  };
  CHECK(refused(R"("metric":"loss","mode":"min","search":{"tpe":{"warm_start":[9]}})") ==
        "search/tpe/warm_start: there is no experiment 9");
  CHECK(refused(R"("metric":"acc","mode":"min","search":{"tpe":{"warm_start":[1]}})") ==
        "search/tpe/warm_start: experiment 1 improves loss (min), and this one acc (min)");
}

}  // namespace rt
