// The sinks over a journal on disk: stopped and started anywhere, they leave every row once.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>

#include "common/base/status.h"
#include "head/journal/sqlite_journal.h"
#include "head/sinks/cursor.h"
#include "head/sinks/result_sinks.h"
#include "head/view/view.h"
#include "tests/bench/fleet.h"
#include "tests/patience.h"
#include "tests/temp_dir.h"

using namespace rt;

namespace {

// A search that a fleet of two nodes plays into a journal on disk, and sinks beside it.
struct Search {
  TempDir folder{"sinks"};
  std::unique_ptr<Journal> journal;
  std::unique_ptr<bench::Fleet> fleet;
  std::unique_ptr<ResultSinks> sinks;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t flushed = 0;

  Search() {
    OpenJournal();
    bench::FleetOptions options{.nodes = 2, .slots = 3, .rows_per_report = 2,
                                .reports_per_trial = 9, .jobs_percent = 30,
                                .results_root = folder.File("results")};
    fleet = std::make_unique<bench::Fleet>(
        options, [this](bench::Fleet::Kind, const Input&, Millis, Outcome outcome) {
          if (outcome.records.empty()) return;
          std::promise<absl::Status> durable;
          journal->Append({std::move(outcome.records), std::move(outcome.rows)},
                          [&](absl::Status status) { durable.set_value(std::move(status)); });
          REQUIRE(durable.get_future().get().ok());
          if (sinks != nullptr) sinks->Wake();
        });
  }
  ~Search() {
    sinks.reset();
    journal.reset();
  }
  void OpenJournal() {
    journal.reset();
    auto opened = OpenSqliteJournal(folder.File("journal.db"));
    REQUIRE(opened.ok());
    journal = *std::move(opened);
  }
  void StartSinks() {
    {  // What the ones before wrote after this cursor is written anew.
      std::lock_guard lock(mutex);
      flushed = ReadCursor(folder.File("results.cursor"))->seq;
    }
    const auto note = [this](const input::SinksFlushed& told) {
      std::lock_guard lock(mutex);
      flushed = told.seq;
      changed.notify_all();
    };
    auto started = ResultSinks::Start(*journal, folder.path(), note, {.retry_after = 10});
    REQUIRE(started.ok());
    sinks = *std::move(started);
  }
  // The process ends and comes back: files as they are, the cursor as old as it may be.
  void Restart(const std::string& cursor) {
    sinks.reset();
    OpenJournal();
    if (!cursor.empty()) std::ofstream(folder.File("results.cursor")) << cursor;
    StartSinks();
  }
  std::string Cursor() const {
    std::ifstream file(folder.File("results.cursor"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <class Condition>
  void WaitFor(Condition&& condition) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, condition));
  }
  void WaitFlushed() {
    sinks->Wake();
    WaitFor([&] { return flushed == journal->durable_seq(); });
  }
  static std::vector<std::string> Lines(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // Every kept row of every trial stands in its files, once and in order.
  void CheckFiles() {
    const Experiment& experiment = fleet->core().world.state.experiments.at({1});
    const ExperimentIndex& index = fleet->core().world.index.experiments.at({1});
    size_t rows = 0;
    for (const Trial& trial : experiment.trials) {
      const std::string directory =
          experiment.results_dir + "/" + TrialName(experiment, index, trial.id.number);
      INFO(directory);
      CHECK(std::filesystem::exists(directory + "/params.json"));
      const auto lines = Lines(directory + "/result.json");
      REQUIRE(lines.size() == trial.reports);
      for (size_t i = 0; i < lines.size(); ++i)
        REQUIRE(Json::Parse(lines[i])->GetInt("training_iteration") == static_cast<int64_t>(i) + 1);
      const size_t csv = Lines(directory + "/progress.csv").size();
      CHECK(csv == (lines.empty() ? 0 : lines.size() + 1));
      rows += lines.size();
    }
    CHECK(rows > 50);
  }
};

}  // namespace

TEST_CASE("sinks: on a real journal, restarts at any time lose no row and repeat none") {
  Search search;
  search.fleet->SetUp();
  search.StartSinks();
  std::string old_cursor;
  for (int round = 0; round < 12; ++round) {
    search.fleet->Round();
    if (round % 3 == 0) {
      search.WaitFlushed();
      old_cursor = search.Cursor();
    }
    if (round % 3 == 2) search.Restart(old_cursor);  // Rows were written since; the cursor not.
    if (round % 4 == 1) search.Restart("");
  }
  search.WaitFlushed();
  search.CheckFiles();
}

TEST_CASE("sinks: a cursor ahead of the journal is an error that says what to do") {
  Search search;
  std::ofstream(search.folder.File("results.cursor")) << R"({"seq":1000000,"open":{}})";
  const absl::Status status =
      ResultSinks::Start(*search.journal, search.folder.path(), [](const auto&) {}, {}).status();
  CHECK(absl::IsDataLoss(status));
  CHECK(MessageOf(status).find("is at record 1000000, and the journal ends at record ") !=
        std::string::npos);
  CHECK(HintOf(status).find("--restored") != std::string::npos);
}

TEST_CASE("sinks: a results directory that was refused gets every row later, also over a restart") {
  Search search;
  std::ofstream(search.folder.File("results")) << "in the way";
  search.fleet->SetUp();
  search.StartSinks();
  for (int round = 0; round < 3; ++round) search.fleet->Round();
  search.WaitFlushed();
  CHECK(std::filesystem::is_regular_file(search.folder.File("results")));
  CHECK(!ReadCursor(search.folder.File("results.cursor"))->refused.empty());
  search.Restart("");
  for (int round = 0; round < 3; ++round) search.fleet->Round();
  search.WaitFlushed();
  std::filesystem::remove(search.folder.File("results"));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!ReadCursor(search.folder.File("results.cursor"))->refused.empty()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    search.sinks->Wake();
    std::this_thread::yield();
  }
  search.CheckFiles();
}
