// One more search algorithm and one more scheduler: each is a file, its header and a registry line.
#include "common/spec/journalled_spec.h"
#include "tests/unit/core_story.h"

namespace rt {
namespace {

constexpr char kSpace[] = R"(,"space":{"x":{"uniform":[0,8]}},"metric":"loss","mode":"min")";

absl::Status StatusOf(const std::string& more) {
  auto json = Json::Parse(R"({"experiment":"e","command":["x"])" + more + "}");
  REQUIRE(json.ok());
  return ParseExperimentSpec(*json).status();
}

}  // namespace

TEST_CASE("algorithm seam: options of a new algorithm are parsed by its table") {
  CHECK(StatusOf(std::string(kSpace) + R"(,"search":{"sweep":{"steps":3}})").ok());
  const absl::Status range = StatusOf(R"(,"search":{"sweep":{"steps":0}})");
  CHECK(MessageOf(range) == "search/sweep/steps: must be a whole number between 1 and 100");
  const absl::Status slip = StatusOf(R"(,"search":{"sweep":{"step":3}})");
  CHECK(HintOf(slip) == "did you mean 'steps'?");
  CHECK(HintOf(StatusOf(R"(,"scheduler":"patient")")) ==
        "did you mean 'patience'? known: asha, fifo, patience");
  CHECK(MessageOf(StatusOf(R"(,"scheduler":"patience")")) ==
        "scheduler: patience compares trials by a metric");
}

TEST_CASE("algorithm seam: a new search algorithm proposes, and its answers name it") {
  Story story;
  const ExperimentId id = story.Create(std::string(kSpace) +
                                       R"(,"num_samples":-1,"search":{"sweep":{"steps":3}})");
  const Experiment& experiment = story.core.world.state.experiments.at(id);
  REQUIRE(experiment.trials.size() == 3);
  CHECK(experiment.trials[1].params == R"({"x":2.6666666666666665})");
  const auto view = ExperimentView(story.core, {.now = story.now}, id);
  CHECK(view->GetString("search") == "sweep");
  const auto reading = ReadJournalledExperiment(
      {experiment.spec_text, experiment.normal_spec, experiment.spec_format});
  CHECK(reading.warnings.empty());
  CHECK(reading.spec.search.options.GetInt("steps") == 3);
  CHECK(story.answers.answers() == 1);  // Of three trials; it was computed again.
  story.SyncTwice();
  for (uint32_t number : {0u, 1u, 2u}) story.Exit(story.FenceOf(number), 0, 0);
  CHECK(experiment.finishing);  // The algorithm has no more: num_samples does not say so.
}

TEST_CASE("algorithm seam: a new scheduler pauses at its milestone and resumes at a trial's end") {
  Story story;
  story.Create(std::string(kSpace) + R"(,"num_samples":2,"scheduler":{"patience":{"at":3}})");
  story.SyncTwice();
  for (uint64_t seq = 1; seq <= 3; ++seq) story.Report(story.FenceOf(0), seq, R"({"loss":1})");
  for (uint64_t seq = 1; seq <= 3; ++seq) story.Report(story.FenceOf(1), seq, R"({"loss":2})");
  CHECK(story.TrialOf(0).pause_cause == PauseCause::kNone);
  CHECK(story.TrialOf(1).pause_cause == PauseCause::kScheduler);
  CHECK(story.TrialOf(1).pause_reason == "waits at 3");
  story.running[story.FenceOf(1)].suspended = true;
  story.Exit(story.FenceOf(1), 143, 3);
  CHECK(story.StateOf(1) == "PAUSED");
  const Rung& rung = story.core.world.state.experiments.at({1}).rungs.at(0);
  CHECK(rung.entries == std::vector<RungEntry>{{0, 1, 1, 3}, {1, 2, 1, 3}});
  story.Exit(story.FenceOf(0), 0, 3);
  CHECK(story.StateOf(0) == "COMPLETED");
  CHECK(story.TrialOf(1).pause_cause == PauseCause::kNone);
  story.SyncTwice();
  CHECK(story.StateOf(1) == "RUNNING");
  CHECK(story.answers.answers() == 3);  // Two trials, a pause, a resumption.
}

TEST_CASE("algorithm seam: names are unique among all algorithms, and tables are complete") {
  std::set<std::string> names;
  for (AlgorithmKind kind : {AlgorithmKind::kSearch, AlgorithmKind::kScheduler})
    for (const AlgorithmTable* table : AlgorithmTables(kind)) {
      INFO(table->name);
      CHECK(table->kind == kind);
      CHECK(table->version >= 1);
      CHECK(!table->meaning.empty());
      CHECK(names.insert(table->name).second);
      for (const AlgorithmOption& option : table->options) {
        INFO(option.name);
        CHECK(!option.meaning.empty());
        // The default is a value that a user may write.
        const Json given = Json::MakeObject({{option.name, option.default_value}});
        const Json named = Json::MakeObject({{table->name, given}});
        CHECK(ParseAlgorithm(kind, &named).ok());
      }
    }
}

}  // namespace rt
