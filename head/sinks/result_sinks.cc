#include "head/sinks/result_sinks.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/core/core.h"
#include "head/core/view.h"
#include "head/journal/replay.h"
#include "head/sinks/cursor.h"
#include "head/sinks/trial_files.h"

namespace rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Records read at once.
constexpr size_t kRecordsMax = 1'024;
// The cursor is written this often while records flow, and at once when an experiment is decided.
constexpr milliseconds kCursorEvery{500};

class Sinks final : public ResultSinks {
 public:
  Sinks(Journal& journal, const std::string& state_dir, FlushedFn flushed, Options options)
      : journal_(journal), cursor_path_(state_dir + "/results.cursor"),
        flushed_(std::move(flushed)), options_(options) {}
  ~Sinks() override;
  absl::Status Begin();
  void Wake() override;

 private:
  void Run();
  absl::Status Prepare();
  absl::Status CatchUp();
  void Take(Batch batch);
  void OnRecord(const Record& record, const RowBatch* rows);
  void AddRows(const RowBatch& rows);
  void Rewrite(TrialId id);
  absl::Status RewriteNow(TrialId id, TrialFiles& files);
  void FlushTouched();
  void Failed(TrialId id, const absl::Status& status);
  absl::Status SaveCursor();
  TrialFiles& FilesOf(TrialId id);
  std::string DirectoryOf(TrialId id) const;
  TrialFacts FactsOf(TrialId id) const;
  static bool Counts(const Trial& trial, const AttemptId& attempt, uint64_t seq);

  Journal& journal_;
  const std::string cursor_path_;
  const FlushedFn flushed_;
  const Options options_;

  // The thread's.
  SinkCursor cursor_;  // As it was read.
  bool is_prepared_ = false;
  Core replica_;
  std::map<TrialId, TrialFiles> open_;
  std::set<TrialId> touched_;
  std::map<TrialId, steady_clock::time_point> retry_;  // Failed: rewritten then.
  std::set<TrialId> closing_;                          // Ended in this batch.
  std::set<std::string> decided_;                      // Results directories to sync.
  uint64_t saved_seq_ = 0;
  steady_clock::time_point saved_at_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = true;
  bool stopping_ = false;
  std::thread thread_;
};

Sinks::~Sinks() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Sinks::Begin() {
  RT_ASSIGN_OR_RETURN(cursor_, ReadCursor(cursor_path_));
  if (cursor_.seq > journal_.durable_seq()) {
    return absl::DataLossError(cursor_path_ + " is ahead of the journal: it is not of this one");
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

// The state at the cursor, and what the files held then.
absl::Status Sinks::Prepare() {
  if (is_prepared_) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(Replayed replayed, Replay(journal_, cursor_.seq));
  replica_.world = std::move(replayed.world);
  saved_seq_ = cursor_.seq;
  saved_at_ = steady_clock::now();
  for (auto& [id, mark] : cursor_.open) {
    if (FindTrial(replica_.world.state, id) == nullptr) continue;
    open_.emplace(id, TrialFiles(FactsOf(id), std::move(mark)));
  }
  for (TrialId id : cursor_.refused) {
    if (FindTrial(replica_.world.state, id) != nullptr) retry_[id] = steady_clock::now();
  }
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
    const bool due = stop || !decided_.empty() || steady_clock::now() - saved_at_ >= kCursorEvery;
    if (status.ok() && due) status = SaveCursor();
    if (!status.ok()) {
      RT_LOG(kError) << "results: " << status.message();
    }
  }
}

absl::Status Sinks::CatchUp() {
  for (auto retry = retry_.begin(); retry != retry_.end();) {
    const TrialId id = retry->first;
    if (retry->second > steady_clock::now()) {
      ++retry;
      continue;
    }
    retry = retry_.erase(retry);
    Rewrite(id);
    if (retry_.contains(id)) break;  // Still refused: the others wait as well.
    if (FindTrial(replica_.world.state, id)->end != TrialEnd::kNone) open_.erase(id);
  }
  while (true) {
    RT_ASSIGN_OR_RETURN(Batch batch,
                        journal_.ReadBatch(replica_.world.state.seq, kRecordsMax));
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
  FlushTouched();
}

void Sinks::OnRecord(const Record& record, const RowBatch* rows) {
  Apply(replica_.world, record);
  if (rows != nullptr) AddRows(*rows);
  if (const auto* created = std::get_if<event::ExperimentCreated>(&record.event)) {
    const ExperimentSpec& spec = replica_.world.index.experiments.at(created->experiment).spec;
    const absl::Status status = WriteExperiment(created->results_dir, record.at, spec);
    if (!status.ok()) {
      RT_LOG(kWarning) << "results: " << status.message();
    }
  }
  if (const auto* created = std::get_if<event::TrialCreated>(&record.event)) {
    const absl::Status status = WriteParams(DirectoryOf(created->trial), created->params);
    if (!status.ok()) Failed(created->trial, status);
  }
  if (const auto* placed = std::get_if<event::AttemptPlaced>(&record.event)) {
    // What came after the checkpoint that it starts from is superseded.
    if (placed->attempt.owner.is_trial() && placed->attempt.number > 1) {
      Rewrite(placed->attempt.owner.trial());
    }
  }
  if (const auto* retried = std::get_if<event::TrialRetried>(&record.event)) {
    const absl::Status status = RemoveError(DirectoryOf(retried->trial));
    if (!status.ok()) {
      RT_LOG(kError) << "results: " << status.message();
    }
  }
  if (const auto* ended = std::get_if<event::TrialEnded>(&record.event)) {
    closing_.insert(ended->trial);
    if (auto files = open_.find(ended->trial); files != open_.end()) {
      files->second.AddEnd(record.at, ended->end);
      touched_.insert(ended->trial);
    }
    if (ended->end == TrialEnd::kFailed) {
      const absl::Status status = WriteError(DirectoryOf(ended->trial), *ended);
      if (!status.ok()) {
        RT_LOG(kError) << "results: " << status.message();
      }
    }
  }
  if (const auto* decided = std::get_if<event::ExperimentDecided>(&record.event)) {
    decided_.insert(replica_.world.state.experiments.at(decided->experiment).results_dir);
  }
}

bool Sinks::Counts(const Trial& trial, const AttemptId& attempt, uint64_t seq) {
  for (const Segment& segment : trial.lineage) {
    if (segment.attempt == attempt.number) return segment.seq_to == 0 || seq <= segment.seq_to;
  }
  return false;
}

void Sinks::AddRows(const RowBatch& rows) {
  if (!rows.attempt.owner.is_trial() || rows.rank != 0) return;
  const TrialId id = rows.attempt.owner.trial();
  const Trial* trial = FindTrial(replica_.world.state, id);
  if (trial == nullptr || retry_.contains(id)) return;
  if (!open_.contains(id) && trial->reports > rows.rows.size()) return Rewrite(id);
  TrialFiles& files = FilesOf(id);
  for (const Row& row : rows.rows) {
    if (!Counts(*trial, rows.attempt, row.seq)) continue;
    if (!files.Add(FillResult(replica_, *trial, rows.attempt.number, row))) return Rewrite(id);
  }
  touched_.insert(id);
}

void Sinks::Rewrite(TrialId id) {
  touched_.erase(id);
  const absl::Status status = RewriteNow(id, FilesOf(id));
  if (!status.ok()) Failed(id, status);
}

absl::Status Sinks::RewriteNow(TrialId id, TrialFiles& files) {
  const Trial& trial = *FindTrial(replica_.world.state, id);
  RT_ASSIGN_OR_RETURN(std::vector<StoredRows> stored, journal_.ReadRows(Owner::Of(id), 0));
  std::vector<Json> results;
  for (const StoredRows& rows : stored) {
    // Later ones come when their record does.
    if (rows.batch.rank != 0 || rows.event_seq > replica_.world.state.seq) continue;
    for (const Row& row : rows.batch.rows) {
      if (!Counts(trial, rows.batch.attempt, row.seq)) continue;
      results.push_back(FillResult(replica_, trial, rows.batch.attempt.number, row));
    }
  }
  RT_RETURN_IF_ERROR(WriteParams(DirectoryOf(id), trial.params));
  return files.Rewrite(results, trial.ended_at, trial.end);
}

void Sinks::FlushTouched() {
  for (TrialId id : std::exchange(touched_, {})) {
    ReachFailpoint("head.sinks.before_flush");
    absl::Status status = FilesOf(id).Flush();
    if (absl::IsFailedPrecondition(status)) {
      Rewrite(id);
    } else if (!status.ok()) {
      Failed(id, status);
    }
  }
  for (TrialId id : std::exchange(closing_, {})) {
    if (!retry_.contains(id)) open_.erase(id);
  }
}

// The trial's files are of no use to append to any more: they are written anew later.
void Sinks::Failed(TrialId id, const absl::Status& status) {
  if (retry_.empty()) {
    RT_LOG(kWarning) << "results of trial " << ToString(id) << ": " << status.message();
  }
  open_.erase(id);
  touched_.erase(id);
  retry_[id] = steady_clock::now() + milliseconds(options_.retry_after);
}

absl::Status Sinks::SaveCursor() {
  saved_at_ = steady_clock::now();
  const uint64_t seq = replica_.world.state.seq;
  for (const std::string& directory : std::exchange(decided_, {})) {
    const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) continue;  // Nothing could be written there either.
    if (syncfs(fd) != 0) {
      RT_LOG(kWarning) << ErrnoStatus(errno, "sync " + directory).message();
    }
    close(fd);
  }
  SinkCursor cursor{.seq = seq, .open = {}, .refused = {}};
  for (const auto& [id, files] : open_) cursor.open[id] = files.mark();
  for (const auto& [id, at] : retry_) cursor.refused.insert(id);
  if (seq == saved_seq_ && cursor.refused == cursor_.refused) return absl::OkStatus();
  RT_RETURN_IF_ERROR(FailAt("head.sinks.before_cursor"));
  RT_RETURN_IF_ERROR(WriteCursor(cursor_path_, cursor));
  ReachFailpoint("head.sinks.after_cursor");
  const bool has_moved = seq != saved_seq_;
  saved_seq_ = seq;
  cursor_ = std::move(cursor);
  if (!has_moved) return absl::OkStatus();
  if (flushed_) flushed_(seq);
  return absl::OkStatus();
}

TrialFiles& Sinks::FilesOf(TrialId id) {
  auto found = open_.find(id);
  if (found != open_.end()) return found->second;
  return open_.emplace(id, TrialFiles(FactsOf(id), {})).first->second;
}

TrialFacts Sinks::FactsOf(TrialId id) const {
  const Experiment& experiment = replica_.world.state.experiments.at(id.experiment);
  const Trial& trial = experiment.trials.at(id.number);
  const ExperimentIndex& index = replica_.world.index.experiments.at(id.experiment);
  return {DirectoryOf(id), TrialName(experiment, index, id.number), trial.params,
          trial.created_at};
}

std::string Sinks::DirectoryOf(TrialId id) const {
  const Experiment& experiment = replica_.world.state.experiments.at(id.experiment);
  const ExperimentIndex& index = replica_.world.index.experiments.at(id.experiment);
  return TrialDirectory(experiment, index, id.number);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultSinks>> ResultSinks::Start(Journal& journal,
                                                                const std::string& state_dir,
                                                                FlushedFn flushed,
                                                                Options options) {
  auto sinks = std::make_unique<Sinks>(journal, state_dir, std::move(flushed), options);
  RT_RETURN_IF_ERROR(Annotate(sinks->Begin(), "results"));
  return sinks;
}

}  // namespace rt
