#include "head/sinks/result_sinks.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "common/run/io_pool.h"
#include "head/journal/replay.h"
#include "head/sinks/cursor.h"
#include "head/sinks/experiment_sink.h"
#include "head/view/view.h"

namespace rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Records read at once.
constexpr size_t kRecordsMax = 1'024;
// The cursor is written this often while records flow, and at once when an experiment is decided.
constexpr milliseconds kCursorEvery{500};
// Experiments whose files are written at the same time: so many directories may hang before they
// hold up others.
constexpr size_t kThreads = 16;
constexpr size_t kQueuedMax = 1u << 20;  // Experiments.
// Of a row in memory, for each byte of its text.
constexpr size_t kBytesPerTextByte = 8;

class Sinks final : public ResultSinks {
 public:
  Sinks(Journal& journal, const std::string& state_dir, FlushedFn flushed, Options options)
      : journal_(journal), cursor_path_(state_dir + "/results.cursor"),
        flushed_(std::move(flushed)), options_(std::move(options)), pool_(kThreads, kQueuedMax) {}
  ~Sinks() override;
  absl::Status Begin();
  void Wake() override;

 private:
  struct Entry {
    Entry(ExperimentId id, const std::string& directory, const ExperimentSink::Parts& parts)
        : sink(id, directory, parts) {}
    ExperimentSink sink;
    bool is_slow = false;     // It did not keep up with the cursor before this one.
    bool is_finishing = false;  // It waits for its sink only.
  };

  void Run();
  absl::Status Prepare();
  absl::Status CatchUp();
  void Take(Batch batch);
  void OnRecord(const Record& record, const RowBatch* rows);
  void AddRows(uint64_t seq, const RowBatch& rows);
  void Push(TrialId trial, SinkTask task) {
    task.trial = trial.number;
    EntryOf(trial.experiment).sink.Push(std::move(task));
  }
  absl::Status SaveCursor();
  SinkCursor NextCursor(input::SinksFlushed& news);
  bool HasCaughtUp();
  void ForgetEnded();
  Entry& EntryOf(ExperimentId id);

  Journal& journal_;
  const std::string cursor_path_;
  const FlushedFn flushed_;
  const Options options_;

  // The thread's. The replica's core is changed by it alone, and read by the pool's threads.
  SinkCursor cursor_;  // As it was read or last written.
  bool is_prepared_ = false;
  Replica replica_;
  std::map<ExperimentId, Entry> entries_;
  bool is_due_ = false;  // Somebody waits for the cursor.
  input::SinksFlushed told_;
  steady_clock::time_point saved_at_;
  std::atomic<bool> has_behind_ = false;  // Of told_; read by the pool's threads.

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = true;
  bool stopping_ = false;
  IoPool pool_;
  std::thread thread_;
};

Sinks::~Sinks() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  pool_.Stop();
}

absl::Status Sinks::Begin() {
  RT_ASSIGN_OR_RETURN(cursor_, ReadCursor(cursor_path_));
  if (cursor_.seq > journal_.durable_seq()) {
    return WithHint(
        absl::DataLossError(cursor_path_ + " is at record " + std::to_string(cursor_.seq) +
                            ", and the journal ends at record " +
                            std::to_string(journal_.durable_seq()) +
                            ": the journal lost its newest records, or is another one"),
        "put the newest journal.db and journal.db-wal back; if they are gone, run rt-head with "
        "--restored, remove results.cursor, and start the head (docs/reliability.md, "
        "\"A damaged journal\")");
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

// The state at the cursor, and what the files held then.
absl::Status Sinks::Prepare() {
  if (is_prepared_) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Replayed replayed, Replay(journal_, cursor_.seq));
  replica_.core.world = std::move(replayed.world);
  const State& state = replica_.core.world.state;
  told_.seq = cursor_.seq;
  saved_at_ = steady_clock::now();
  for (auto& [id, mark] : cursor_.open)
    if (FindTrial(state, id) != nullptr) EntryOf(id.experiment).sink.Adopt(id.number, mark);
  for (ExperimentId id : cursor_.unbegun) {
    auto found = state.experiments.find(id);
    if (found == state.experiments.end()) continue;
    EntryOf(id).sink.Push({.seq = UINT64_MAX, .at = found->second.created_at});
  }
  for (TrialId id : cursor_.refused) {
    if (FindTrial(state, id) == nullptr) continue;
    Push(id, {.kind = SinkTask::Kind::kRewrite, .seq = UINT64_MAX});
  }
  for (ExperimentId id : replica_.core.world.index.unflushed_experiments)
    EntryOf(id).is_finishing = true;
  is_prepared_ = true;
  return absl::OkStatus();
}

void Sinks::Wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Sinks::Run() {
  bool stop = false;
  while (!stop) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kCursorEvery, [this] { return woken_ || stopping_; });
      woken_ = false;
      stop = stopping_;
    }
    absl::Status status = Prepare();
    if (status.ok()) status = CatchUp();
    for (auto& [id, entry] : entries_) {
      entry.sink.Poke(stop);
      if (stop) entry.sink.WaitIdle(steady_clock::time_point::max());
    }
    const bool due = stop || is_due_ || HasCaughtUp() ||
                     steady_clock::now() - saved_at_ >= kCursorEvery;
    if (status.ok() && due) status = SaveCursor();
    if (!status.ok()) {
      RT_LOG(kError) << "results: " << status.message();
    }
  }
}

absl::Status Sinks::CatchUp() {
  while (true) {
    RT_ASSIGN_OR_RETURN(Batch batch,
                        journal_.ReadBatch(replica_.core.world.state.seq, kRecordsMax));
    if (batch.records.empty()) return absl::OkStatus();
    Take(std::move(batch));
  }
}

void Sinks::Take(Batch batch) {
  size_t next_rows = 0;
  for (const Record& record : batch.records) {
    const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
    const bool has_rows = reports != nullptr && reports->count > 0;
    OnRecord(record, has_rows ? &batch.rows.at(next_rows++) : nullptr);
  }
}

void Sinks::OnRecord(const Record& record, const RowBatch* rows) {
  using Kind = SinkTask::Kind;
  const uint64_t seq = record.seq;
  {
    std::lock_guard lock(replica_.mutex);
    Apply(replica_.core.world, record);
  }
  if (rows != nullptr) AddRows(seq, *rows);
  if (const auto* created = std::get_if<event::ExperimentCreated>(&record.event))
    EntryOf(created->experiment).sink.Push({.kind = Kind::kBegin, .seq = seq, .at = record.at});
  if (const auto* created = std::get_if<event::TrialCreated>(&record.event))
    Push(created->trial, {.kind = Kind::kParams, .seq = seq});
  if (const auto* answered = std::get_if<event::Answered>(&record.event)) {
    for (const CreatedTrial& created : answered->created)
      Push({answered->experiment, created.number}, {.kind = Kind::kParams, .seq = seq});
    for (const ClonedTrial& cloned : answered->cloned)
      Push({answered->experiment, cloned.number}, {.kind = Kind::kParams, .seq = seq});
  }
  if (const auto* placed = std::get_if<event::AttemptPlaced>(&record.event)) {
    // What came after the checkpoint that it starts from is superseded.
    if (placed->attempt.owner.is_trial() && placed->attempt.number > 1)
      Push(placed->attempt.owner.trial(), {.kind = Kind::kRewrite, .seq = seq});
  }
  if (const auto* resized = std::get_if<event::AttemptResized>(&record.event)) {
    if (resized->attempt.owner.is_trial())
      Push(resized->attempt.owner.trial(), {.kind = Kind::kRewrite, .seq = seq});
  }
  if (const auto* retried = std::get_if<event::TrialRetried>(&record.event))
    Push(retried->trial, {.kind = Kind::kRunAgain, .seq = seq});
  if (const auto* ended = std::get_if<event::TrialEnded>(&record.event)) {
    Push(ended->trial, {.kind = Kind::kEnd, .seq = seq, .at = record.at, .end = ended->end,
                        .error = ended->error, .reason = ended->reason});
  }
  if (const auto* decided = std::get_if<event::ExperimentFinishing>(&record.event)) {
    Entry& entry = EntryOf(decided->experiment);
    entry.sink.Push({.kind = Kind::kSync, .seq = seq});
    entry.is_finishing = true;
    is_due_ = true;
  }
  if (const auto* reopened = std::get_if<event::ExperimentReopened>(&record.event))
    EntryOf(reopened->experiment).is_finishing = false;
}

void Sinks::AddRows(uint64_t seq, const RowBatch& rows) {
  if (!rows.attempt.owner.is_trial() || rows.rank != 0) return;
  const TrialId id = rows.attempt.owner.trial();
  const Trial* trial = FindTrial(replica_.core.world.state, id);
  if (trial == nullptr) return;
  SinkTask task{.kind = SinkTask::Kind::kRows, .seq = seq,
                .has_earlier = trial->reports > rows.rows.size()};
  for (const Row& row : rows.rows) {
    if (!trial->Counts(rows.attempt, row.seq)) continue;
    task.bytes += row.metrics.size() * kBytesPerTextByte;
    task.rows.push_back(FillResult(replica_.core, *trial, rows.attempt, row));
  }
  Push(id, std::move(task));
}

// Whether an experiment that the head was told is behind is so no more.
bool Sinks::HasCaughtUp() {
  for (ExperimentId id : told_.behind)
    if (EntryOf(id).sink.IsIdle()) return true;
  return false;
}

SinkCursor Sinks::NextCursor(input::SinksFlushed& news) {
  SinkCursor cursor{.seq = news.seq, .open = {}, .refused = {}, .unbegun = {}};
  for (auto& [id, entry] : entries_) {
    ExperimentSink::Standing standing = entry.sink.GetStanding();
    if (!standing.is_begun) cursor.unbegun.insert(id);
    for (auto& [number, mark] : standing.open) cursor.open[{id, number}] = std::move(mark);
    for (uint32_t number : standing.refused) cursor.refused.insert({id, number});
    if (std::string problem = entry.sink.Problem(); !problem.empty())
      news.problems[id] = std::move(problem);
  }
  return cursor;
}

absl::Status Sinks::SaveCursor() {
  saved_at_ = steady_clock::now();
  is_due_ = false;
  input::SinksFlushed news{.seq = replica_.core.world.state.seq};
  const auto deadline = saved_at_ + milliseconds(options_.cursor_wait);
  for (auto& [id, entry] : entries_) {
    entry.is_slow = entry.is_slow ? !entry.sink.IsIdle() : !entry.sink.WaitIdle(deadline);
    if (entry.is_slow && entry.is_finishing) news.behind.insert(id);
  }
  SinkCursor cursor = NextCursor(news);
  const bool has_news = news.seq != told_.seq || news.behind != told_.behind ||
                        news.problems != told_.problems;
  const bool is_same = cursor.seq == cursor_.seq && cursor.refused == cursor_.refused &&
                       cursor.unbegun == cursor_.unbegun;
  if (!has_news && is_same) return absl::OkStatus();
  RT_RETURN_IF_ERROR(FailAt("head.sinks.before_cursor"));
  RT_RETURN_IF_ERROR(WriteCursor(cursor_path_, cursor));
  ReachFailpoint("head.sinks.after_cursor");
  cursor_ = std::move(cursor);
  ForgetEnded();
  if (!has_news) return absl::OkStatus();
  told_ = news;
  has_behind_ = !news.behind.empty();
  if (flushed_) flushed_(std::move(news));
  return absl::OkStatus();
}

// Their queues, once all is written. A retry makes a new one.
void Sinks::ForgetEnded() {
  const State& state = replica_.core.world.state;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool is_over = state.experiments.at(entry->first).finished &&
                         !cursor_.unbegun.contains(entry->first) && entry->second.sink.IsDone();
    entry = is_over ? entries_.erase(entry) : std::next(entry);
  }
}

Sinks::Entry& Sinks::EntryOf(ExperimentId id) {
  auto found = entries_.find(id);
  if (found != entries_.end()) return found->second;
  const ExperimentSink::Parts parts{journal_, replica_, pool_, options_.roots,
                                    [this] { if (has_behind_) Wake(); }, options_.retry_after};
  const std::string& directory = replica_.core.world.state.experiments.at(id).results_dir;
  return entries_.try_emplace(id, id, directory, parts).first->second;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultSinks>> ResultSinks::Start(Journal& journal,
                                                                const std::string& state_dir,
                                                                FlushedFn flushed,
                                                                Options options) {
  auto sinks = std::make_unique<Sinks>(journal, state_dir, std::move(flushed),
                                       std::move(options));
  RT_RETURN_IF_ERROR(Annotate(sinks->Begin(), "results"));
  return sinks;
}

}  // namespace rt
