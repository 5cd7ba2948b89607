// How long the head is away: from opening its journal until it can serve, as rt-head starts
// (journal, loop, sinks). The history is a search that the real core played: trials created,
// placed, started, reporting, cut by early stopping, ended. `bench_restart [EVENTS ROWS]`; the
// history is written to a temporary directory and is not timed.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/cas/dir_objects.h"
#include "head/journal/codec.h"
#include "head/journal/journal_draft.h"
#include "head/journal/replay.h"
#include "head/journal/shipping_journal.h"
#include "head/journal/sqlite_journal.h"
#include "head/loop/head_loop.h"
#include "head/sinks/cursor.h"
#include "head/sinks/result_sinks.h"
#include "tests/bench/fleet.h"
#include "tests/temp_dir.h"

namespace rt::bench {
namespace {

using std::chrono::steady_clock;

constexpr size_t kRecordsPerBatch = 512;
constexpr size_t kInFlightMax = 32;
constexpr double kLeaseS = 3.0;  // LeadWatch: how long a standby waits for a sign of life.

double Since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}
void Must(const absl::Status& status) {
  RT_CHECK_BECAUSE(status.ok(), status.ToString().c_str());
}

// Appends what a Step made, in batches, with a bound on what is in flight.
class Writer {
 public:
  explicit Writer(Journal& journal) : journal_(journal) {}
  void Add(Outcome outcome) {
    std::move(outcome.records.begin(), outcome.records.end(), std::back_inserter(batch_.records));
    std::move(outcome.rows.begin(), outcome.rows.end(), std::back_inserter(batch_.rows));
    if (batch_.records.size() >= kRecordsPerBatch) Flush();
  }
  void Flush() {
    if (batch_.records.empty()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_ < kInFlightMax; });
    ++in_flight_;
    lock.unlock();
    journal_.Append(std::exchange(batch_, {}), [this](absl::Status status) {
      Must(status);
      std::lock_guard done(mutex_);
      --in_flight_;
      changed_.notify_all();
    });
  }
  void Finish() {
    Flush();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_flight_ == 0; });
  }

 private:
  Journal& journal_;
  Batch batch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t in_flight_ = 0;
};

struct History {
  uint64_t events = 0, rows = 0, trials = 0;
  Snapshot snapshot;  // As far behind the end as one may be.
};

History Generate(const TempDir& folder, uint64_t events, uint64_t rows) {
  History history;
  auto journal = OpenSqliteJournal(folder.File("journal.db"));
  Must(journal.status());
  Writer writer(**journal);
  Fleet fleet({.nodes = 200, .rows_per_report = 12, .reports_per_trial = 324, .jobs_percent = 1},
              [&](Fleet::Kind, const Input&, Millis, Outcome outcome) {
                history.events += outcome.records.size();
                for (const RowBatch& batch : outcome.rows) history.rows += batch.rows.size();
                writer.Add(std::move(outcome));
              });
  const auto play = [&](uint64_t events_to, uint64_t rows_to) {
    while (history.events < events_to || history.rows < rows_to) fleet.Round();
  };
  fleet.SetUp();
  const uint64_t tail = std::min(limits::kSnapshotEveryEvents, events / 2);
  play(events - tail, 0);
  history.snapshot = {fleet.core().world.state.seq, EncodeState(fleet.core().world.state)};
  play(events, rows);
  writer.Finish();
  history.trials = fleet.core().world.state.experiments.at({1}).trials.size();
  Must(WriteCursor(folder.File("results.cursor"), {.seq = history.events}));
  return history;
}

struct Restart {
  double open_s = 0, loop_s = 0, sinks_s = 0;
  double total_s() const { return open_s + loop_s + sinks_s; }
};

// What rt-head does between its first line and its listening socket, TLS aside.
Restart TimeRestart(const TempDir& folder) {
  Restart restart;
  auto start = steady_clock::now();
  auto journal = OpenSqliteJournal(folder.File("journal.db"));
  Must(journal.status());
  restart.open_s = Since(start);
  start = steady_clock::now();
  // It takes no snapshot of its own: the next start shall find those that were put there.
  auto loop = HeadLoop::Start(**journal, {"bench", "bench", RT_VERSION},
                              {.snapshot_every_events = UINT64_MAX});
  Must(loop.status());
  restart.loop_s = Since(start);
  start = steady_clock::now();
  auto sinks = ResultSinks::Start(**journal, folder.path(), [](input::SinksFlushed) {});
  Must(sinks.status());
  restart.sinks_s = Since(start);
  return restart;
}

// The longest that the core thread lets a question wait, in milliseconds, while `busy` says so.
double LongestWaitMs(HeadLoop& loop, const std::function<bool()>& busy) {
  double longest = 0;
  while (busy()) {
    const auto start = steady_clock::now();
    std::promise<void> answered;
    loop.Query([](const Core&) {}, [&](const absl::Status&) { answered.set_value(); });
    answered.get_future().wait();
    longest = std::max(longest, Since(start) * 1e3);
  }
  return longest;
}

// How long the core thread stops for a snapshot: it should not at all.
void PrintSnapshotStall(const TempDir& folder) {
  auto journal = OpenSqliteJournal(folder.File("journal.db"));
  Must(journal.status());
  const auto newest = [&] {
    auto snapshot = (*journal)->LatestSnapshot(UINT64_MAX);
    Must(snapshot.status());
    return snapshot->has_value() ? (*snapshot)->seq : 0;
  };
  const uint64_t before = newest();
  const auto start_loop = [&](uint64_t every) {
    auto loop = HeadLoop::Start(**journal, {"bench", "bench", RT_VERSION},
                                {.snapshot_every_events = every});
    Must(loop.status());
    return *std::move(loop);
  };
  auto loop = start_loop(1);
  auto start = steady_clock::now();
  std::atomic<bool> is_written = false;
  std::thread watcher([&] {
    while (newest() == before) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    is_written = true;
  });
  const double with = LongestWaitMs(*loop, [&] { return !is_written; });
  const double took = Since(start);
  watcher.join();
  loop.reset();
  loop = start_loop(UINT64_MAX);
  start = steady_clock::now();
  const double without = LongestWaitMs(*loop, [&] { return Since(start) < took; });
  std::printf("# core thread: a question waited at most %.1f ms in the %.2f s of a snapshot, %.1f "
              "ms in as long without one\n", with, took, without);
}

double FsyncMicros(const TempDir& folder) {
  const int fd = open(folder.File("fsync").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  RT_CHECK(fd >= 0);
  const std::string page(4'096, 'x');
  std::vector<double> micros;
  for (int i = 0; i < 101; ++i) {
    const auto start = steady_clock::now();
    RT_CHECK(pwrite(fd, page.data(), page.size(), i * 4'096) == 4'096 && fdatasync(fd) == 0);
    micros.push_back(Since(start) * 1e6);
  }
  close(fd);
  std::sort(micros.begin(), micros.end());
  return micros[micros.size() / 2];
}

void Print(const char* name, const Restart& restart, double bar) {
  std::printf("BENCH %s %.2f s bar <=%.0f peer none\n", name, restart.total_s(), bar);
  std::printf("# journal open %.2f s, loop ready %.2f s, sinks ready %.2f s\n", restart.open_s,
              restart.loop_s, restart.sinks_s);
}

std::unique_ptr<ShippingJournal> Ship(std::unique_ptr<Journal> local, ObjectStore& store,
                                      const std::string& writer) {
  auto shipping = OpenShippingJournal(std::move(local), store,
                                      {.mode = ShipMode::kSync, .writer = writer});
  Must(shipping.status());
  return *std::move(shipping);
}

// Another machine goes on from the shipped journal, in a directory beside: from nothing, and as a
// standby that had followed it to its end.
void PrintTakeover(const TempDir& folder) {
  auto store = DirObjects::Open(folder.File("store"));
  Must(store.status());
  auto start = steady_clock::now();
  {
    auto journal = OpenSqliteJournal(folder.File("journal.db"));
    Must(journal.status());
    Ship(*std::move(journal), **store, "first");
  }
  std::printf("# all of it shipped to a directory in %.1f s\n", Since(start));
  TempDir other("restart");
  ShippedLog log(**store);
  start = steady_clock::now();
  {
    auto draft = JournalDraft::Begin(other.File("journal.db"));
    Must(draft.status());
    Must(CatchUp(log, draft->journal()));
    Must(draft->Seal());
  }
  auto copy = OpenSqliteJournal(other.File("journal.db"));
  Must(copy.status());
  const double restored_s = Since(start);
  start = steady_clock::now();
  auto replayed = Replay(**copy);
  Must(replayed.status());
  std::printf("BENCH restore_shipped %.2f s bar <=10 peer none\n", restored_s + Since(start));
  std::printf("# journal restored in %.2f s, replayed in %.2f s\n", restored_s, Since(start));
  start = steady_clock::now();
  auto journal = Ship(*std::move(copy), **store, "second");
  auto loop = HeadLoop::Start(*journal, {"bench", "bench", RT_VERSION},
                              {.snapshot_every_events = UINT64_MAX}, std::move(replayed->world));
  Must(loop.status());
  std::printf("BENCH takeover_by_standby %.2f s bar <=5 peer none\n", kLeaseS + Since(start));
  std::printf("# of which %.1f s are the wait for a sign of life, %.2f s the fence and the loop\n",
              kLeaseS, Since(start));
}

int Main(uint64_t events, uint64_t rows) {
  TempDir folder("restart");
  std::printf("# fsync %.0f us\n", FsyncMicros(folder));
  auto start = steady_clock::now();
  const History history = Generate(folder, events, rows);
  std::printf("# history: %lu events, %lu rows, %lu trials, %.1f MB; made in %.0f s\n",
              static_cast<unsigned long>(history.events), static_cast<unsigned long>(history.rows),
              static_cast<unsigned long>(history.trials),
              static_cast<double>(std::filesystem::file_size(folder.File("journal.db"))) / 1e6,
              Since(start));
  std::fflush(stdout);
  PrintTakeover(folder);
  std::fflush(stdout);
  Print("restart_replay", TimeRestart(folder), 6);
  {
    auto journal = OpenSqliteJournal(folder.File("journal.db"));
    Must(journal.status());
    start = steady_clock::now();
    Must((*journal)->WriteSnapshot(history.snapshot));
    std::printf("# snapshot: %.1f MB at %lu, written in %.2f s\n",
                static_cast<double>(history.snapshot.state.size()) / 1e6,
                static_cast<unsigned long>(history.snapshot.seq), Since(start));
  }
  Print("restart_snapshot", TimeRestart(folder), 1);
  PrintSnapshotStall(folder);
  return 0;
}

}  // namespace
}  // namespace rt::bench

int main(int argc, char** argv) {
  if (argc != 1 && argc != 3) {
    std::fprintf(stderr, "usage: bench_restart [EVENTS ROWS]\n");
    return 2;
  }
  return rt::bench::Main(argc == 3 ? strtoull(argv[1], nullptr, 10) : 1'000'000,
                         argc == 3 ? strtoull(argv[2], nullptr, 10) : 10'000'000);
}
