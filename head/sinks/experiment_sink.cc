#include "head/sinks/experiment_sink.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/run/failpoint.h"
#include "head/view/view.h"

namespace rt {
namespace {

// Rewriting for late keys takes at most about this share of the time, whatever a trial reports.
constexpr int kRewriteShare = 4;

// Whether every other attempt fails as well: a name stays too long.
bool IsFinal(const absl::Status& status) { return absl::IsInvalidArgument(status); }

bool IsOfTrial(SinkTask::Kind kind) {
  return kind != SinkTask::Kind::kBegin && kind != SinkTask::Kind::kSync;
}

}  // namespace

ExperimentSink::ExperimentSink(ExperimentId id, std::string results_dir, const Parts& parts)
    : id_(id), results_dir_(std::move(results_dir)), parts_(parts) {}

void ExperimentSink::Adopt(uint32_t trial, TrialFilesMark mark) {
  std::lock_guard lock(mutex_);
  open_.emplace(trial, TrialFiles(FactsOf(trial), std::move(mark)));
  live_.insert(trial);
}

void ExperimentSink::Push(SinkTask task) {
  std::lock_guard lock(mutex_);
  if (IsOfTrial(task.kind)) live_.insert(task.trial);
  if (task.kind == SinkTask::Kind::kBegin) is_begun_ = false;
  if (task.kind == SinkTask::Kind::kRows) {
    if (auto found = overflowed_.find(task.trial); found != overflowed_.end()) {
      queue_[found->second].seq = task.seq;
      return;
    }
    if (queued_bytes_ + task.bytes > limits::kSinkQueueBytesMax) {
      overflowed_.emplace(task.trial, queue_.size());
      task = {.kind = SinkTask::Kind::kRewrite, .seq = task.seq, .trial = task.trial};
    }
    queued_bytes_ += task.bytes;
  }
  queue_.push_back(std::move(task));
  Schedule();
}

void ExperimentSink::Poke(bool late_now) {
  std::lock_guard lock(mutex_);
  if (!next_retry_.has_value()) return;
  if (!late_now && *next_retry_ > Clock::now()) return;
  wants_retry_ = true;
  late_now_ = late_now;
  Schedule();
}

void ExperimentSink::Schedule() {
  if (is_working_) return;
  is_working_ = true;
  parts_.pool.Submit([this] { Work(); });
}

void ExperimentSink::Work() {
  std::unique_lock lock(mutex_);
  while (!queue_.empty() || wants_retry_) {
    const std::deque<SinkTask> tasks = std::exchange(queue_, {});
    const bool late_now = std::exchange(late_now_, false);
    wants_retry_ = false;
    queued_bytes_ = 0;
    overflowed_.clear();
    lock.unlock();
    uint64_t done_to = 0;
    for (const SinkTask& task : tasks) {
      Take(task);
      if (task.seq != UINT64_MAX) done_to = std::max(done_to, task.seq);
    }
    RetryDue(late_now);
    FlushTouched();
    folder_.reset();
    lock.lock();
    Publish(done_to);
  }
  is_working_ = false;
  idle_.notify_all();
  const auto on_idle = parts_.on_idle;  // Once it is idle, this object may go.
  lock.unlock();
  on_idle();
}

bool ExperimentSink::IsIdle() {
  std::lock_guard lock(mutex_);
  return !is_working_ && queue_.empty();
}

bool ExperimentSink::IsDone() {
  std::lock_guard lock(mutex_);
  return !is_working_ && queue_.empty() && open_.empty() && refused_.empty() &&
         lacking_columns_.empty() && !begin_refused_.has_value();
}

bool ExperimentSink::WaitIdle(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto is_idle = [this] { return !is_working_ && queue_.empty(); };
  if (deadline == Clock::time_point::max()) {
    idle_.wait(lock, is_idle);
    return true;
  }
  return idle_.wait_until(lock, deadline, is_idle);
}

void ExperimentSink::Publish(uint64_t done_to) {
  std::erase_if(written_to_, [&](const auto& item) { return item.second <= done_to; });
  live_.clear();
  for (const auto& [trial, files] : open_) live_.insert(trial);
  for (const auto& [trial, refusal] : refused_) live_.insert(trial);
  is_begun_ = !begin_refused_.has_value();
  for (const SinkTask& task : queue_) {
    if (IsOfTrial(task.kind)) live_.insert(task.trial);
    if (task.kind == SinkTask::Kind::kBegin) is_begun_ = false;
  }
  next_retry_.reset();
  problem_.clear();
  size_t problems = 0;
  const auto name = [this](uint32_t trial) {
    return "trial " + ToString(TrialId{id_, trial}) + ": ";
  };
  const auto look_at = [&](const std::string& what, const Refusal& refusal) {
    if (!refusal.is_final) next_retry_ = std::min(next_retry_.value_or(refusal.due), refusal.due);
    if (!refusal.why.ok() && problems++ == 0) problem_ = what + MessageOf(refusal.why);
  };
  if (begin_refused_.has_value()) look_at("", *begin_refused_);
  for (const auto& [trial, refusal] : refused_) look_at(name(trial), refusal);
  for (uint32_t trial : lacking_columns_)
    if (problems++ == 0) problem_ = name(trial) + "progress.csv lacks the latest of its metrics";
  if (problems > 1) problem_ += " (and " + std::to_string(problems - 1) + " more)";
}

ExperimentSink::Standing ExperimentSink::GetStanding() {
  std::lock_guard lock(mutex_);
  Standing standing{.is_begun = is_begun_, .open = {}, .refused = {}};
  if (is_working_ || !queue_.empty()) {
    standing.refused = live_;
    return standing;
  }
  for (const auto& [trial, files] : open_) {
    const TrialFilesMark& mark = files.mark();
    if (mark.columns.size() > limits::kCursorColumnsMax) {
      standing.refused.insert(trial);
    } else {
      standing.open.emplace(trial, mark);
    }
  }
  for (const auto& [trial, refusal] : refused_) {
    standing.open.erase(trial);
    standing.refused.insert(trial);
  }
  return standing;
}

std::string ExperimentSink::Problem() {
  std::lock_guard lock(mutex_);
  return problem_;
}

void ExperimentSink::Take(const SinkTask& task) {
  using Kind = SinkTask::Kind;
  auto written = written_to_.find(task.trial);
  const bool is_written = IsOfTrial(task.kind) && written != written_to_.end() &&
                          task.seq != UINT64_MAX && task.seq <= written->second;
  if (is_written && task.kind != Kind::kEnd) return;
  switch (task.kind) {
    case Kind::kBegin:
      created_at_ = task.at;
      return TakeBegin(task.at);
    case Kind::kParams: return TakeParams(task.trial);
    case Kind::kRows:
      return TakeRows(task);
    case Kind::kRewrite:
      return Rewrite(task.trial);
    case Kind::kRunAgain: {
      if (refused_.contains(task.trial)) return;
      const absl::Status status = InTrial(task.trial, RemoveError);
      if (!status.ok()) Note(task.trial, status);
      return;
    }
    case Kind::kEnd:
      if (!is_written) TakeEnd(task);
      closing_.insert(task.trial);
      return;
    case Kind::kSync:
      return TakeSync();
  }
}

void ExperimentSink::TakeBegin(Millis created_at) {
  ExperimentSpec spec;
  {
    std::lock_guard lock(parts_.replica.mutex);
    spec = parts_.replica.core.world.index.experiments.at(id_).spec;
  }
  absl::Status status = OpenFolder();
  if (status.ok()) status = WriteExperiment(*folder_, created_at, spec);
  if (status.ok()) return begin_refused_.reset();
  if (!begin_refused_.has_value()) {
    RT_LOG(kWarning) << "results of experiment " << id_.value << ": " << status.message();
  }
  begin_refused_ = Refusal{status, IsFinal(status), Clock::now() +
                                                    std::chrono::milliseconds(parts_.retry_after)};
}

void ExperimentSink::TakeParams(uint32_t trial) {
  const std::string params = FactsOf(trial).params;
  absl::Status status =
      InTrial(trial, [&](const Folder& folder) { return WriteParams(folder, params); });
  if (status.ok()) status = WritePolicyOf(trial);
  if (!status.ok()) Note(trial, status);
}

// Writes the policy of the trial, if it was cloned.
absl::Status ExperimentSink::WritePolicyOf(uint32_t number) {
  std::string lines;
  {
    std::lock_guard lock(parts_.replica.mutex);
    const Experiment& experiment = parts_.replica.core.world.state.experiments.at(id_);
    const Trial& trial = experiment.trials.at(number);
    if (trial.cloned == 0) return absl::OkStatus();
    lines = PolicyLines(experiment, trial);
  }
  RT_RETURN_IF_ERROR(OpenFolder());
  return WritePolicy(*folder_, {id_, number}, lines);
}

void ExperimentSink::TakeRows(const SinkTask& task) {
  if (refused_.contains(task.trial)) return;
  if (!open_.contains(task.trial) && task.has_earlier) return Rewrite(task.trial);
  TrialFiles& files = FilesOf(task.trial);
  for (const Json& row : task.rows)
    if (!files.Add(row)) return NoteLateKey(task.trial);
  touched_.insert(task.trial);
}

void ExperimentSink::TakeEnd(const SinkTask& task) {
  if (auto refused = refused_.find(task.trial); refused != refused_.end()) {
    if (refused->second.why.ok()) refused->second.due = Clock::now();
    return;
  }
  if (auto files = open_.find(task.trial); files != open_.end()) {
    files->second.AddEnd(task.at, task.end);
    touched_.insert(task.trial);
  }
  if (task.end != TrialEnd::kFailed) return;
  const absl::Status status = InTrial(task.trial, [&](const Folder& folder) {
    return WriteError(folder, task.error, task.reason);
  });
  if (!status.ok()) Note(task.trial, status);
}

void ExperimentSink::TakeSync() {
  FlushTouched();
  absl::Status status = OpenFolder();
  if (!status.ok()) return;  // Nothing could be written there either.
  status = folder_->SyncFileSystem();
  if (!status.ok()) {
    RT_LOG(kWarning) << "results of experiment " << id_.value << ": " << status.message();
  }
}

void ExperimentSink::RetryDue(bool late_now) {
  const Clock::time_point now = Clock::now();
  if (begin_refused_.has_value() && !begin_refused_->is_final && begin_refused_->due <= now)
    TakeBegin(created_at_);
  std::vector<uint32_t> due;
  for (const auto& [trial, refusal] : refused_) {
    const bool is_late = refusal.why.ok();
    if (!refusal.is_final && (refusal.due <= now || (is_late && late_now))) due.push_back(trial);
  }
  bool refuses = false;
  for (uint32_t trial : due) {
    Refusal& refusal = refused_.at(trial);
    if (refuses && !refusal.why.ok()) {  // The others wait as well.
      refusal.due = now + std::chrono::milliseconds(parts_.retry_after);
      continue;
    }
    Rewrite(trial);
    refuses = refuses || refused_.contains(trial);
  }
}

void ExperimentSink::FlushTouched() {
  for (uint32_t trial : std::exchange(touched_, {})) {
    ReachFailpoint("head.sinks.before_flush");
    absl::Status status = OpenFolder();
    if (status.ok()) status = FilesOf(trial).Flush(*folder_);
    if (status.ok()) {
      NoteColumns(trial);
    } else if (absl::IsDataLoss(status)) {
      Rewrite(trial);
    } else {
      Note(trial, status);
    }
  }
  for (uint32_t trial : std::exchange(closing_, {})) {
    if (refused_.contains(trial)) continue;
    open_.erase(trial);
    calm_until_.erase(trial);
  }
}

void ExperimentSink::Rewrite(uint32_t trial) {
  touched_.erase(trial);
  const Clock::time_point began = Clock::now();
  const absl::Status status = RewriteNow(trial);
  const Clock::time_point ended = Clock::now();
  calm_until_[trial] = ended + kRewriteShare * (ended - began);
  if (status.ok()) {
    refused_.erase(trial);
  } else {
    Note(trial, status);
  }
}

absl::Status ExperimentSink::RewriteNow(uint32_t number) {
  Trial trial;
  uint64_t seq = 0;
  {
    std::lock_guard lock(parts_.replica.mutex);
    const State& state = parts_.replica.core.world.state;
    trial = state.experiments.at(id_).trials.at(number);
    seq = state.seq;
  }
  const auto write = [&](const Folder& folder) -> absl::Status {
    RT_RETURN_IF_ERROR(WriteParams(folder, trial.params));
    if (trial.end == TrialEnd::kFailed) return WriteError(folder, trial.error, trial.reason);
    return RemoveError(folder);
  };
  RT_RETURN_IF_ERROR(InTrial(number, write));  // Before its rows are read in vain.
  RT_RETURN_IF_ERROR(WritePolicyOf(number));
  RT_ASSIGN_OR_RETURN(std::vector<Json> rows, RowsUpTo(trial, seq));
  RT_RETURN_IF_ERROR(FilesOf(number).Rewrite(*folder_, rows, trial.ended_at, trial.end));
  NoteColumns(number);
  written_to_[number] = seq;
  if (trial.end != TrialEnd::kNone) closing_.insert(number);
  return absl::OkStatus();
}

// Those that count.
absl::StatusOr<std::vector<Json>> ExperimentSink::RowsUpTo(const Trial& trial, uint64_t seq) {
  std::vector<Json> rows;
  for (RowPlace place;;) {
    RT_ASSIGN_OR_RETURN(
        const std::vector<StoredRows> stored,
        parts_.journal.ReadRows(Owner::Of(trial.id), place, limits::kRowsReadBytes));
    if (stored.empty()) return rows;
    place = PlaceOf(stored.back());
    for (const StoredRows& some : stored) {
      // Later ones come when their record does.
      if (some.batch.rank != 0 || some.event_seq > seq) continue;
      const AttemptId& attempt = some.batch.attempt;
      for (const Row& row : some.batch.rows) {
        if (!trial.Counts(attempt, row.seq)) continue;
        std::lock_guard lock(parts_.replica.mutex);
        rows.push_back(FillResult(parts_.replica.core, trial, attempt, row));
      }
    }
  }
}

// The trial's files are of no use to append to any more: they are written again later.
void ExperimentSink::Note(uint32_t trial, const absl::Status& status) {
  if (refused_.empty()) {
    RT_LOG(kWarning) << "results of trial " << ToString(TrialId{id_, trial}) << ": "
                     << status.message();
  }
  open_.erase(trial);
  touched_.erase(trial);
  refused_[trial] = {status, IsFinal(status),
                     Clock::now() + std::chrono::milliseconds(parts_.retry_after)};
}

void ExperimentSink::NoteLateKey(uint32_t trial) {
  touched_.erase(trial);
  const auto calm = calm_until_.find(trial);
  refused_[trial] = {absl::OkStatus(), false,
                     calm == calm_until_.end() ? Clock::now() : calm->second};
}

void ExperimentSink::NoteColumns(uint32_t trial) {
  if (FilesOf(trial).lacks_columns()) lacking_columns_.insert(trial);
}

absl::Status ExperimentSink::OpenFolder() {
  if (folder_.has_value()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(folder_, parts_.roots.Open(results_dir_));
  return absl::OkStatus();
}

absl::Status ExperimentSink::InTrial(uint32_t trial,
                                     const std::function<absl::Status(const Folder&)>& change) {
  RT_RETURN_IF_ERROR(OpenFolder());
  RT_ASSIGN_OR_RETURN(const Folder folder, folder_->Enter(FactsOf(trial).directory));
  return change(folder);
}

TrialFacts ExperimentSink::FactsOf(uint32_t number) {
  std::lock_guard lock(parts_.replica.mutex);
  const World& world = parts_.replica.core.world;
  const Experiment& experiment = world.state.experiments.at(id_);
  const ExperimentIndex& index = world.index.experiments.at(id_);
  const Trial& trial = experiment.trials.at(number);
  const std::string directory = TrialDirectory(experiment, index, number);
  return {directory.substr(experiment.results_dir.size() + 1),
          TrialName(experiment, index, number), trial.params, trial.created_at};
}

TrialFiles& ExperimentSink::FilesOf(uint32_t number) {
  auto found = open_.find(number);
  if (found == open_.end()) found = open_.emplace(number, TrialFiles(FactsOf(number), {})).first;
  return found->second;
}

}  // namespace rt
