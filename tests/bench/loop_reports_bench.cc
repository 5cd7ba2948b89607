// Rows per second through the head's own parts in one process: loop, journal on disk, sinks. Two
// nodes with four trials each; a node sends its next report when the last was answered, that is,
// committed. The wire, the workers and the trials' processes are left out: this is the head's share
// of the end-to-end figure.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

#include "common/base/check.h"
#include "common/base/status.h"
#include "head/journal/sqlite_journal.h"
#include "head/loop/head_loop.h"
#include "head/sinks/result_sinks.h"
#include "tests/temp_dir.h"

namespace rt::bench {
namespace {

using std::chrono::steady_clock;

constexpr int kNodes = 2;
constexpr int kTrialsPerNode = 4;
constexpr int kRowsPerBatch = 64;
constexpr std::chrono::seconds kFor{5};

struct Head {
  TempDir folder{"reports"};
  std::unique_ptr<Journal> journal;
  std::unique_ptr<HeadLoop> loop;
  std::unique_ptr<ResultSinks> sinks;
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t flushed = 0;

  Head() {
    journal = *OpenSqliteJournal(folder.File("journal.db"));
    loop = *HeadLoop::Start(*journal, {"bench", "bench", RT_VERSION}, {});
    sinks = *ResultSinks::Start(*journal, folder.path(), [this](input::SinksFlushed told) {
      std::lock_guard lock(mutex);
      flushed = told.seq;
      changed.notify_all();
    });
    loop->OnDurable([this](uint64_t) { sinks->Wake(); });
  }
  ~Head() {
    loop.reset();
    sinks.reset();
    journal.reset();
  }
  Answer Post(Input input) {
    std::promise<Answer> answered;
    loop->Post(std::move(input), [&](const absl::Status& status, const Answer& answer) {
      RT_CHECK_BECAUSE(status.ok(), status.ToString().c_str());
      answered.set_value(answer);
    });
    return answered.get_future().get();
  }
  void WaitFlushed() {
    const uint64_t seq = journal->durable_seq();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return flushed >= seq; });
  }
};

// A worker: keeps its lease with a thread of its own, as real ones do.
class Worker {
 public:
  Worker(Head& head, int number) : head_(head) {
    const std::string token = "token" + std::to_string(number);
    head.Post(input::CreateToken{token, "worker", 60'000, ""});
    node_ = head.Post(input::UseToken{token, ""}).node;
  }
  void Sync() {
    input::Sync sync{.node = node_, .incarnation = 1, .sync_seq = ++sync_seq_};
    sync.inventory.resources.cpu = kTrialsPerNode * kUnit;
    for (const Fence& fence : running_)
      sync.observed.push_back({.fence = fence, .phase = Observed::Phase::kRunning, .pid = 1});
    std::promise<SyncReply> replied;
    sync.seen_epoch = seen_.epoch;
    head_.loop->PostSync(std::move(sync), {seen_.version},
                         [&](SyncReply reply) { replied.set_value(std::move(reply)); });
    seen_ = replied.get_future().get();
    RT_CHECK_BECAUSE(seen_.status.ok(), seen_.status.ToString().c_str());
    running_.clear();
    for (const DesiredAttempt& desired : seen_.desired) running_.push_back(desired.fence);
  }
  size_t running() const { return running_.size(); }
  // Reports until the time is over; returns the rows.
  uint64_t Work() {
    const std::vector<Fence> trials = running_;
    std::atomic<bool> stop = false;
    std::thread lease([&] {
      while (!stop) Sync();
    });
    uint64_t seq = 0, rows = 0;
    const auto start = steady_clock::now();
    while (steady_clock::now() - start < kFor) {
      input::Report report{.node = node_, .batches = {}};
      for (const Fence& fence : trials) {
        report.batches.push_back({fence.attempt, 0, {}});
        for (int i = 1; i <= kRowsPerBatch; ++i) {
          const auto step = static_cast<double>(seq + i);
          report.batches.back().rows.push_back(
              {seq + i, step, step * 0.01, 1'700'000'000'000,
               R"({"loss":)" + std::to_string(1 / step) + R"(,"accuracy":0.75,"epoch":3})"});
        }
      }
      seq += kRowsPerBatch;
      rows += static_cast<uint64_t>(kRowsPerBatch) * trials.size();
      for (const ReportVerdict& verdict : head_.Post(std::move(report)).verdicts)
        RT_CHECK(verdict.acked_seq == seq);
    }
    stop = true;
    lease.join();
    return rows;
  }

 private:
  Head& head_;
  NodeId node_;
  uint64_t sync_seq_ = 0;
  SyncReply seen_;
  std::vector<Fence> running_;
};

int Main() {
  Head head;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kNodes; ++i) workers.push_back(std::make_unique<Worker>(head, i));
  for (auto& worker : workers) worker->Sync();
  head.Post(input::CreateExperiment{
      .spec = R"({"experiment":"bench","command":["x"],"num_samples":)" +
              std::to_string(kNodes * kTrialsPerNode) + R"(,"metric":"loss","mode":"min"})",
      .results_root = head.folder.File("results")});
  for (auto& worker : workers) {
    while (worker->running() < kTrialsPerNode) worker->Sync();
  }
  const uint64_t synced_before = head.journal->bytes_synced();
  const auto start = steady_clock::now();
  std::vector<std::future<uint64_t>> results;
  for (auto& worker : workers)
    results.push_back(std::async(std::launch::async, [&worker] { return worker->Work(); }));
  uint64_t rows = 0;
  for (auto& result : results) rows += result.get();
  const std::chrono::duration<double> committed = steady_clock::now() - start;
  head.WaitFlushed();
  const std::chrono::duration<double> shown = steady_clock::now() - start;
  std::printf("BENCH loop_reports %.0f rows/s bar none peer none\n",
              static_cast<double>(rows) / committed.count());
  std::printf("# %lu rows committed in %.2f s, in their result files after %.2f s (%.0f rows/s); "
              "%.1f MB synced, durable_seq %lu\n",
              static_cast<unsigned long>(rows), committed.count(), shown.count(),
              static_cast<double>(rows) / shown.count(),
              static_cast<double>(head.journal->bytes_synced() - synced_before) / 1e6,
              static_cast<unsigned long>(head.journal->durable_seq()));
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main() { return rt::bench::Main(); }
