#include <catch2/catch.hpp>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "common/base/strings.h"
#include "head/core/core.h"
#include "head/core/view.h"
#include "head/journal/memory_journal.h"
#include "head/sinks/result_sinks.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
std::vector<std::string> Lines(const std::filesystem::path& path) {
  std::vector<std::string> lines = Split(ReadText(path), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// A head without a loop: Step, then the memory journal. One node, one experiment, one trial.
struct Story {
  TempDir folder{"sinks"};
  Core core;
  MemoryJournal journal;
  Millis now = 1'000'000;
  uint64_t sync_seq = 0;
  std::map<Fence, Observed> running;
  std::unique_ptr<ResultSinks> sinks;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t flushed = 0;

  Story() {
    Do(input::StartHead{"c", "test", "1"});
    Do(input::CreateToken{"tok", "worker", 1000, ""});
    Do(input::UseToken{"tok", "n1"});
    Sync();
    Do(input::CreateExperiment{
        .spec = R"({"experiment":"e","command":["x"],"max_failures":3})", .request_key = "k",
        .drawn_seed = 9, .results_root = folder.path()});
    Sync();
    Sync();
    StartSinks();
  }
  ~Story() { sinks.reset(); }
  Outcome Do(const Input& input) {
    Outcome outcome = Step(core, input, ++now);
    INFO(outcome.verdict.ToString());
    REQUIRE(outcome.verdict.ok());
    if (!outcome.records.empty()) {
      journal.Append({outcome.records, outcome.rows}, [](const absl::Status&) {});
    }
    return outcome;
  }
  void Sync() {
    input::Sync sync{.node = {1}, .incarnation = 7, .sync_seq = ++sync_seq};
    sync.inventory.resources.cpu = 2 * kUnit;
    for (const auto& [fence, observed] : running) sync.observed.push_back(observed);
    Do(sync);
  }
  Fence FenceOf(uint32_t attempt) { return {{Owner::Of(TrialId{{1}, 0}), attempt, 1}, 0}; }
  void Run(uint32_t attempt) {
    running[FenceOf(attempt)] = {FenceOf(attempt), Observed::Phase::kRunning, 4242};
    Sync();
  }
  void Report(uint32_t attempt, uint64_t seq, const std::string& metrics) {
    RowBatch batch{FenceOf(attempt).attempt, 0,
                   {{seq, static_cast<double>(seq), 1, now, metrics}}};
    REQUIRE(!Do(input::Report{{1}, {batch}}).answer.verdicts.at(0).stale);
  }
  // Fails the attempt; the next one is placed at once.
  void Fail(uint32_t attempt, uint64_t last_seq) {
    Observed& observed = running[FenceOf(attempt)];
    observed.phase = Observed::Phase::kExited;
    observed.exit_code = 1;
    observed.last_seq = last_seq;
    Sync();
    running.clear();
    Sync();
    Sync();
  }
  void StartSinks() {
    auto started = ResultSinks::Start(journal, folder.path(), [this](uint64_t seq) {
      std::lock_guard lock(mutex);
      flushed = seq;
      changed.notify_all();
    });
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    sinks = std::move(*started);
  }
  void WaitFlushed() {
    sinks->Wake();
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(10),
                             [&] { return flushed == journal.durable_seq(); }));
  }
  std::filesystem::path Directory() {
    const Experiment& experiment = core.world.state.experiments.at({1});
    return std::filesystem::path(experiment.results_dir) /
           TrialName(experiment, core.world.index.experiments.at({1}), 0);
  }
  size_t JsonLines() { return Lines(Directory() / "result.json").size(); }
};

}  // namespace

TEST_CASE("sinks: rows become lines, and a late key gets its column") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5,"nested":{"a":1}})");
  story.WaitFlushed();
  CHECK(std::filesystem::exists(story.Directory() / "params.json"));
  story.Report(1, 2, R"({"loss":0.25,"late":"x,y"})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 2);
  const auto lines = Lines(story.Directory() / "progress.csv");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("loss,nested/a,"));
  CHECK(lines[0].ends_with(",late"));
  CHECK(lines[1].starts_with("0.5,1,"));
  CHECK(lines[1].ends_with(","));
  CHECK(lines[2].ends_with(",\"x,y\""));
  CHECK(lines[0].find("config") == std::string::npos);
}

TEST_CASE("sinks: after a restart files are cut to the cursor, so every row appears once") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  const std::string cursor = ReadText(story.folder.File("results.cursor"));
  story.Report(1, 2, R"({"loss":0.4})");
  story.WaitFlushed();
  story.sinks.reset();
  // The crash: rows were written, the cursor was not.
  std::ofstream(story.folder.File("results.cursor")) << cursor;
  std::ofstream(story.Directory() / "result.json", std::ios::app) << "{\"half";
  story.StartSinks();
  story.Report(1, 3, R"({"loss":0.3})");
  story.WaitFlushed();
  const auto lines = Lines(story.Directory() / "result.json");
  REQUIRE(lines.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(Json::Parse(lines[i])->GetInt("training_iteration") == static_cast<int64_t>(i) + 1);
  }
  CHECK(Lines(story.Directory() / "progress.csv").size() == 4);
}

TEST_CASE("sinks: a file that lost its end is written anew") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.WaitFlushed();
  std::filesystem::resize_file(story.Directory() / "result.json", 3);
  story.Report(1, 2, R"({"loss":0.4})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 2);
}

TEST_CASE("sinks: superseded rows are left out") {
  Story story;
  story.Run(1);
  story.Report(1, 1, R"({"loss":0.5})");
  story.Report(1, 2, R"({"loss":0.4})");
  story.Do(input::CommitCheckpoint{.fence = story.FenceOf(1), .manifest = std::string(64, 'a'),
                                   .row = {2, 2, 1, story.now, R"({"loss":0.4})"}, .bytes = 5});
  story.Report(1, 3, R"({"loss":0.3})");
  story.WaitFlushed();
  CHECK(story.JsonLines() == 3);
  story.Fail(1, 3);
  story.Run(2);
  story.Report(2, 1, R"({"loss":0.2})");
  story.WaitFlushed();
  const auto lines = Lines(story.Directory() / "result.json");
  REQUIRE(lines.size() == 3);
  CHECK(Json::Parse(lines[1])->GetDouble("loss") == 0.4);
  CHECK(Json::Parse(lines[2])->GetDouble("loss") == 0.2);
  CHECK(Lines(story.Directory() / "progress.csv").size() == 4);
}
