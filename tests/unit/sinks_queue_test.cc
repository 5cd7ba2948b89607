// Each experiment has a queue of its own in the sinks, and the head is told of its own problems.
#include <sys/stat.h>

#include "common/base/limits.h"
#include "common/run/failpoint.h"
#include "tests/unit/sinks_story.h"

using namespace rt;

TEST_CASE("sinks: an experiment whose files are slow holds up no other") {
  Story story("e", 100);
  story.Do(input::CreateExperiment{.spec = R"({"experiment":"f","command":["x"]})",
                                   .request_key = "k2", .drawn_seed = 9,
                                   .results_root = story.folder.path()});
  story.Sync();
  story.Run(1);
  story.Run(1, {2});
  story.WaitFlushed();
  // The next trial whose rows are written stands still.
  REQUIRE(ArmFailpoints("head.sinks.before_flush=stop:6000@1", "head").ok());
  story.Report(1, 1, R"({"loss":0.5})");
  story.End(1, 1);
  story.WaitTold([&] { return story.news.behind.contains({1}); });
  story.Report(1, 1, R"({"loss":0.25})", {2});
  story.End(1, 1, {2});
  const uint64_t decided = story.core.world.state.experiments.at({2}).finishing_seq;
  REQUIRE(decided > 0);
  const auto began = std::chrono::steady_clock::now();
  story.WaitTold([&] { return story.flushed >= decided && !story.news.behind.contains({2}); });
  CHECK(story.news.behind == std::set<ExperimentId>{{1}});
  story.Do(story.news);
  CHECK(story.core.world.state.experiments.at({2}).finished);
  CHECK(!story.core.world.state.experiments.at({1}).finished);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(5'500));
  story.WaitFlushed();
  ArmFailpoints("", "head").IgnoreError();
  story.Do(story.news);
  CHECK(story.core.world.state.experiments.at({1}).finished);
  CHECK(story.JsonLines() == 1);
}

TEST_CASE("sinks: a trial directory that cannot be made is reported, and the search ends") {
  Story story;
  story.WaitFlushed();
  std::filesystem::remove_all(story.Directory());
  std::ofstream(story.Directory()) << "a file";
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.End(1, 1);
  story.WaitFlushed();
  REQUIRE(story.news.problems.contains({1}));
  const std::string& problem = story.news.problems.at({1});
  CHECK(problem.starts_with("trial 1/0: "));
  CHECK(problem.ends_with(": Not a directory"));
  story.Do(story.news);
  CHECK(story.core.world.state.experiments.at({1}).finished);
  const auto shown = ExperimentView(story.core, HeadFacts{}, {1});
  REQUIRE(shown.ok());
  CHECK(shown->GetString("results_problem") == problem);
}

TEST_CASE("sinks: a link in the place of a trial's directory is not written through") {
  Story story;
  story.WaitFlushed();
  const std::filesystem::path outside = story.folder.File("outside");
  std::filesystem::create_directory(outside);
  std::filesystem::remove_all(story.Directory());
  std::filesystem::create_symlink(outside, story.Directory());
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  CHECK(std::filesystem::is_empty(outside));
  CHECK(story.news.problems.at({1}).find("symbolic link") != std::string::npos);
}

TEST_CASE("sinks: a pipe in the place of a result file holds nobody up") {
  Story story;
  story.WaitFlushed();
  REQUIRE(mkfifo((story.Directory() / "result.json").c_str(), 0600) == 0);
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  CHECK(story.news.problems.contains({1}));
}

// Workers refuse such rows; a node that was taken over need not.
TEST_CASE("sinks: progress.csv has a bounded number of columns, result.json has every metric") {
  constexpr size_t kKeys = limits::kMetricKeysPerTrial + 2'000;
  Story story;
  story.Run(1);
  Json row = Json::MakeObject();
  for (size_t i = 0; i < kKeys; ++i) row.object().emplace_back("m" + std::to_string(i), i);
  story.Report(1, 1, row.Dump());
  story.Report(1, 2, R"({"late":1})");
  story.WaitFlushed();
  story.WaitLines(2, 3);
  const std::vector<std::string> lines = Lines(story.Directory() / "progress.csv");
  REQUIRE(lines.size() == 3);
  CHECK(Split(lines[0], ',').size() < limits::kMetricKeysPerTrial + 100);
  CHECK(Split(lines[0], ',').size() == Split(lines[1], ',').size());
  const auto results = Lines(story.Directory() / "result.json");
  REQUIRE(results.size() == 2);
  CHECK(Json::Parse(results[0])->GetInt("m" + std::to_string(kKeys - 1)) == kKeys - 1);
  CHECK(Json::Parse(results[1])->GetInt("late") == 1);
  CHECK(story.news.problems.at({1}) == "trial 1/0: progress.csv lacks the latest of its metrics");
}
