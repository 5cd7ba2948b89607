// A head without a loop, for the tests of the sinks: Step, then the memory journal.
#pragma once

#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "common/base/strings.h"
#include "head/core/core.h"
#include "head/journal/memory_journal.h"
#include "head/sinks/result_sinks.h"
#include "head/view/view.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"

namespace rt {


inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
inline std::vector<std::string> Lines(const std::filesystem::path& path) {
  std::vector<std::string> lines = Split(ReadText(path), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// One node and, unless told otherwise, one experiment of one trial.
struct Story {
  TempDir folder{"sinks"};
  Core core;
  MemoryJournal journal;
  Millis now = 1'000'000;
  uint64_t sync_seq = 0;
  std::map<Fence, Observed> running;
  const Millis cursor_wait;  // Long: what was told is written, also on a busy machine.
  std::unique_ptr<ResultSinks> sinks;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t flushed = 0;
  input::SinksFlushed news;  // As the sinks told the head last.

  explicit Story(const std::string& name = "e", Millis wait = 10'000)
      : cursor_wait(wait) {
    Do(input::StartHead{"c", "test", "1"});
    Do(input::CreateToken{"tok", "worker", 1000, ""});
    Do(input::UseToken{"tok", "n1"});
    Sync();
    Do(input::CreateExperiment{
        .spec = R"({"command":["x"],"max_failures":3,"experiment":")" + name + "\"}",
        .request_key = "k", .drawn_seed = 9, .results_root = folder.path()});
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
  static Fence FenceOf(uint32_t attempt, ExperimentId experiment = {1}) {
    return {{Owner::Of(TrialId{experiment, 0}), attempt, 1}, 0};
  }
  void Run(uint32_t attempt, ExperimentId experiment = {1}) {
    const Fence fence = FenceOf(attempt, experiment);
    running[fence] = {fence, Observed::Phase::kRunning, 4242};
    Sync();
  }
  // The program ends well.
  void End(uint32_t attempt, uint64_t last_seq, ExperimentId experiment = {1}) {
    Observed& observed = running[FenceOf(attempt, experiment)];
    observed.phase = Observed::Phase::kExited;
    observed.last_seq = last_seq;
    Sync();
    running.erase(FenceOf(attempt, experiment));
    Sync();
  }
  void Report(uint32_t attempt, uint64_t seq, const std::string& metrics,
              ExperimentId experiment = {1}) {
    RowBatch batch{FenceOf(attempt, experiment).attempt, 0,
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
    auto started = ResultSinks::Start(journal, folder.path(), [this](input::SinksFlushed told) {
      std::lock_guard lock(mutex);
      flushed = told.seq;
      news = std::move(told);
      changed.notify_all();
    }, {.cursor_wait = cursor_wait});
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    sinks = std::move(*started);
  }
  void WaitFlushed() {
    WaitTold([&] { return flushed == journal.durable_seq() && news.behind.empty(); });
  }
  template <class Condition>
  void WaitTold(Condition&& condition) {
    sinks->Wake();
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, condition));
  }
  std::filesystem::path Directory() {
    const Experiment& experiment = core.world.state.experiments.at({1});
    return std::filesystem::path(experiment.results_dir) /
           TrialName(experiment, core.world.index.experiments.at({1}), 0);
  }
  // Of a trial that goes on nobody is told when its rows are written.
  void WaitLines(size_t json, size_t csv) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((JsonLines() < json || CsvLines() < csv) &&
           std::chrono::steady_clock::now() < deadline) {
      sinks->Wake();
      std::this_thread::yield();
    }
  }
  size_t CsvLines() { return Lines(Directory() / "progress.csv").size(); }
  size_t JsonLines() { return Lines(Directory() / "result.json").size(); }
};


}  // namespace rt
