#include "worker/session/live_attempt.h"

#include <ctime>
#include <utility>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"
#include "worker/launch/freezer.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

constexpr std::string_view kReportPrefix = "RT_REPORT ";
constexpr size_t kLogLineBytesMax = 1u << 20;
constexpr size_t kPumpBytes = 256u << 10;
constexpr int64_t kTailLines = 20;
constexpr uint64_t kRowsToKnow = 3;  // Before a daemon took over: how often they come.

// In its directory, for a daemon that comes after this one.
void Mark(const std::string& path) {
  absl::Status saved = WriteFileAtomic(path, "", {.sync = false});
  if (!saved.ok()) {
    RT_LOG(kWarning) << MessageOf(saved);
  }
}

}  // namespace

LiveAttempt::LiveAttempt(LaunchBody body, RunDir dir, LiveEvents events)
    : body_(std::move(body)), dir_(std::move(dir)), events_(std::move(events)),
      stdout_(dir_.path, "stdout") {}

absl::StatusOr<std::shared_ptr<LiveAttempt>> LiveAttempt::Open(LaunchBody body, RunDir dir,
                                                               LiveEvents events) {
  std::shared_ptr<LiveAttempt> live(
      new LiveAttempt(std::move(body), std::move(dir), std::move(events)));
  RT_ASSIGN_OR_RETURN(live->spool_, Spool::Open(live->dir_.spool()));
  live->stdout_.Seek(live->spool_->stdout_offset());
  if (const uint64_t rows = live->spool_->last_seq(); rows >= kRowsToKnow)
    live->report_intervals_.Assume(
        (WallClock() - live->body_.started_at) / static_cast<Millis>(rows), SteadyClock());
  live->OpenPattern();
  live->said_suspended_ = Exists(live->dir_.paused());
  live->standing_.frozen_for = ReadFreezeNote(live->dir_.freeze()).total;
  auto control = Json::Parse(live->body_.control);
  live->awaits_decision_ = control.ok() && control->GetBool("judged");
  auto text = ReadFile(live->dir_.error(), 1 << 20);
  auto json = text.ok() ? Json::Parse(*text) : absl::StatusOr<Json>(text.status());
  if (json.ok()) {
    live->error_ =
        Error{json->GetString("kind"), json->GetString("message"), json->GetString("traceback")};
  }
  return live;
}

void LiveAttempt::OpenPattern() {
  if (body_.report_regex.empty()) return;
  absl::StatusOr<Pattern> pattern = Pattern::Compile(body_.report_regex);
  if (!pattern.ok()) {
    regex_refused_ = "report_regex, which an earlier release accepted, is switched off: " +
                     MessageOf(pattern.status());
    RT_LOG(kWarning) << rt::ToString(fence()) << ": " << regex_refused_;
    return;
  }
  regex_ = *std::move(pattern);
  auto control = Json::Parse(body_.control);
  if (control.ok()) regex_metric_ = control->GetString("metric", "metric");
}

bool LiveAttempt::IsSpooled(uint64_t client_seq) const {
  return client_seq != 0 && client_seq <= spool_->last_client_seq();
}

absl::StatusOr<SpoolRow> LiveAttempt::RowOf(const Json& metrics,
                                            const ReportOptions& options) const {
  if (!metrics.is_object()) return Invalid("metrics must be a JSON object");
  SpoolRow row{.seq = spool_->last_seq(),
               .client_seq = options.client_seq,
               .stdout_offset = options.stdout_offset,
               .with_checkpoint = options.with_checkpoint,
               .collective = options.collective,
               .key = options.key};
  row.metrics = metrics.Dump();
  if (row.metrics.size() > limits::kMetricsBytesMax) {
    return WithHint(
        Invalid("metrics of " + std::to_string(row.metrics.size()) + " bytes; at most " +
                std::to_string(limits::kMetricsBytesMax) + " are taken"),
        "keep arrays in a file, or in a checkpoint");
  }
  row.timestamp = WallClock();
  const Millis frozen_for = standing().frozen_for;
  const double elapsed_s = ToSeconds(row.timestamp - body_.started_at - frozen_for);
  row.time_total_s = metrics.GetDouble("time_total_s", body_.time_total_base_s + elapsed_s);
  const double last = row.seq == 0 ? body_.iteration_base : spool_->last_iteration();
  const double next = IsSpooled(options.client_seq) ? last : last + 1;
  row.iteration = metrics.GetDouble("training_iteration", next);
  return row;
}

Json LiveAttempt::WithGpus(const Json& reported) {
  Json metrics = reported;
  const auto asked = body_.env.find(kGpuMetrics);
  if (asked != body_.env.end() && asked->second == "1" && events_.gpu_use)
    gpu_rows_.AddTo(metrics, events_.gpu_use(fence()));
  return metrics;
}

absl::StatusOr<SpoolRow> LiveAttempt::AddRow(const Json& reported, const ReportOptions& options) {
  std::unique_lock lock(adding_);
  if (auto known = spool_->Find(options.key)) return *known;
  const Json metrics = WithGpus(reported);
  RT_ASSIGN_OR_RETURN(SpoolRow row, RowOf(metrics, options));
  if (IsSpooled(options.client_seq)) return row;
  RT_RETURN_IF_ERROR(keys_.Add(metrics));
  RT_ASSIGN_OR_RETURN(row, spool_->Append(std::move(row)));
  lock.unlock();
  {
    std::lock_guard pacing(mutex_);
    report_intervals_.Note(SteadyClock());
  }
  events_.on_row(options.wait);
  return row;
}

std::optional<std::string> LiveAttempt::WhyHung(bool busy) {
  if (body_.watchdog_factor <= 0) return std::nullopt;
  const uint64_t newest = spool_->last_seq();
  std::lock_guard lock(mutex_);
  const bool is_answered =
      standing_.acked_seq >= newest && (!awaits_decision_ || standing_.decided_seq >= newest);
  if (busy || !is_answered) report_intervals_.Excuse(SteadyClock());
  const Millis silence = report_intervals_.Silence(SteadyClock());
  const auto allowed = report_intervals_.Allowed(body_.watchdog_factor, body_.watchdog_min);
  if (!allowed || silence < *allowed) return std::nullopt;
  return "its watchdog ended it: no report for " + FormatDouble(ToSeconds(silence)) +
         " s, and it reports every " + FormatDouble(ToSeconds(*report_intervals_.Median())) + " s";
}

void LiveAttempt::ExcuseSilence() {
  std::lock_guard lock(mutex_);
  report_intervals_.Excuse(SteadyClock());
}

void LiveAttempt::Flush() {
  if (spool_->HasPending()) events_.on_row(true);
}

bool LiveAttempt::BeginDriverCall() {
  if (++driver_calls_ <= limits::kDriverCallsMax) return true;
  --driver_calls_;
  return false;
}

void LiveAttempt::NoteDisconnected() {
  --connections_;
  if (IsSocketDone()) events_.on_closed();
}

void LiveAttempt::NoteListenerClosed() {
  listener_closed_ = true;
  if (IsSocketDone()) events_.on_closed();
}

void LiveAttempt::OnVerdict(const Standing& verdict) {
  if (verdict.stale) {
    spool_->Abandon();
  } else {
    spool_->Acknowledge(verdict.acked_seq);
  }
  std::lock_guard lock(mutex_);
  standing_.acked_seq = std::max(standing_.acked_seq, verdict.acked_seq);
  standing_.stale = standing_.stale || verdict.stale;
  standing_.suspend = standing_.suspend || verdict.suspend;
  if (verdict.stop && !standing_.stop) {
    standing_.stop = true;
    standing_.stop_seq = verdict.stop_seq;
    standing_.reason = verdict.reason;
  }
}

void LiveAttempt::NoteStop(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!standing_.stop) standing_.reason = reason;
  standing_.stop = true;
}

bool LiveAttempt::NoteSuspend(std::function<void()> saved) {
  std::lock_guard lock(mutex_);
  standing_.suspend = true;
  on_suspend_saved_ = std::move(saved);
  return connections_ > 0;
}

void LiveAttempt::NoteEviction(Millis by, std::function<void()> saved) {
  std::lock_guard lock(mutex_);
  if (!standing_.evict) evict_after_ = spool_->last_seq();
  standing_.evict = true;
  standing_.evict_by = by;
  on_evict_saved_ = std::move(saved);
}

void LiveAttempt::NoteEvictionCancelled() {
  std::lock_guard lock(mutex_);
  standing_.evict = false;
  on_evict_saved_ = nullptr;
}

bool LiveAttempt::NoteSave(std::function<void()> saved) {
  std::lock_guard lock(mutex_);
  standing_.save = true;
  on_save_saved_ = std::move(saved);
  return connections_ > 0;
}

void LiveAttempt::NoteSaveOver() {
  std::lock_guard lock(mutex_);
  standing_.save = false;
  on_save_saved_ = nullptr;
}

void LiveAttempt::NothingToSave() {
  std::function<void()> saved;
  {
    std::lock_guard lock(mutex_);
    saved = std::exchange(on_save_saved_, nullptr);
  }
  if (saved) saved();
}

void LiveAttempt::NoteThaw(Millis frozen_for) {
  std::lock_guard lock(mutex_);
  ++standing_.thaws;
  standing_.frozen_for = frozen_for;
}

void LiveAttempt::NoteThawTold(uint32_t thaws) {
  std::lock_guard lock(mutex_);
  thaws_told_ = std::max(thaws_told_, thaws);
}

bool LiveAttempt::is_thaw_told() const {
  std::lock_guard lock(mutex_);
  return connections_ == 0 || thaws_told_ >= standing_.thaws;
}

void LiveAttempt::SaySuspended() {
  Mark(dir_.paused());
  said_suspended_ = true;
}

void LiveAttempt::SayOrphaned() { Mark(dir_.orphaned()); }

bool LiveAttempt::said_orphaned() const { return Exists(dir_.orphaned()); }

void LiveAttempt::NoteSaved(uint64_t seq) {
  std::function<void()> saved, evicted, kept;
  {
    std::lock_guard lock(mutex_);
    saved = std::exchange(on_suspend_saved_, nullptr);
    kept = std::exchange(on_save_saved_, nullptr);
    if (seq > evict_after_) evicted = std::exchange(on_evict_saved_, nullptr);
  }
  if (saved) saved();
  if (evicted) evicted();
  if (kept) kept();
}

uint64_t LiveAttempt::complete_seq() const {
  std::lock_guard lock(mutex_);
  return complete_seq_.value_or(0);
}

// A checkpoint that was complete when this daemon first heard of it is not new.
void LiveAttempt::NoteComplete(uint64_t seq) {
  {
    std::lock_guard lock(mutex_);
    const bool is_news = complete_seq_.has_value() && seq > *complete_seq_;
    complete_seq_ = std::max(seq, complete_seq_.value_or(0));
    if (!is_news) return;
  }
  NoteSaved(seq);
}

bool LiveAttempt::NoteDecided(uint64_t seq) {
  std::lock_guard lock(mutex_);
  if (seq <= standing_.decided_seq) return false;
  standing_.decided_seq = seq;
  return true;
}

bool LiveAttempt::IsSettled(const Standing& standing, uint64_t seq) const {
  if (standing.stop || standing.stale) return true;
  return standing.acked_seq >= seq && (!awaits_decision_ || standing.decided_seq >= seq);
}

Standing LiveAttempt::standing() const {
  std::lock_guard lock(mutex_);
  return standing_;
}

void LiveAttempt::SetError(const Error& error) {
  Error kept{ValidUtf8(error.kind, limits::kNameBytesMax),
             ValidUtf8(error.message, limits::kErrorBytesMax),
             ValidUtf8(error.traceback, limits::kErrorBytesMax)};
  absl::Status saved = WriteFileAtomic(
      dir_.error(),
      Json::MakeObject(
          {{"kind", kept.kind}, {"message", kept.message}, {"traceback", kept.traceback}})
          .Dump(),
      {.sync = false});
  if (!saved.ok()) {
    RT_LOG(kWarning) << MessageOf(saved);
  }
  std::lock_guard lock(mutex_);
  error_ = std::move(kept);
}

Error LiveAttempt::LastError(const ExitFacts& exit) const {
  {
    std::lock_guard lock(mutex_);
    if (error_) return *error_;
  }
  if (exit.exit_code == 0 && exit.signal == 0) return {};
  LogReader reader(dir_.path, "stderr");
  reader.SeekToTail(kTailLines);
  const std::string text = reader.Read(limits::kErrorBytesMax);
  return {.message = ValidUtf8(Trim(text), limits::kErrorBytesMax)};
}

bool LiveAttempt::PumpStdout(bool at_end) {
  if (spool_->IsFull()) return false;
  if (regex_) ReachFailpoint("worker.output.before_search");
  // What an earlier turn had no time for comes first.
  const bool has_line = partial_.find('\n') != std::string::npos;
  const std::string bytes = has_line ? "" : stdout_.Read(kPumpBytes);
  const uint64_t start = stdout_.offset() - bytes.size() - partial_.size();
  std::string text = std::move(partial_) + bytes;
  partial_.clear();
  const ThreadBudget budget(limits::kPatternOfRound);
  size_t at = 0;
  for (size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    if (regex_ && budget.IsSpent()) {
      partial_ = text.substr(at);
      return false;
    }
    TakeLine(std::string_view(text).substr(at, end - at), start + end + 1);
  }
  partial_ = text.substr(at);
  if (partial_.size() > kLogLineBytesMax) partial_.clear();
  const bool drained = bytes.empty() && !has_line;
  if (drained && at_end && !partial_.empty()) {
    TakeLine(partial_, stdout_.offset());
    partial_.clear();
  }
  return drained;
}

// "lr=0.1" in text matched by (\w+)=(\S+): two groups are a name and a value; one group is the
// value of the experiment's metric.
std::optional<Json> LiveAttempt::MatchMetrics(std::string_view line) {
  Json metrics = Json::MakeObject();
  const ThreadBudget budget(limits::kPatternOfLine);
  Pattern::Match match;
  for (size_t at = 0; at <= line.size() && regex_->Find(line, at, match);) {
    at = match.is_empty ? match.end + 1 : match.end;
    if (budget.IsSpent()) {
      Refuse(Invalid("report_regex takes too long in a line of " + std::to_string(line.size()) +
                     " bytes"));
      return std::nullopt;
    }
    if (match.groups.empty()) continue;
    const std::string text(match.groups.size() > 1 ? match.groups[1] : match.groups[0]);
    char* rest = nullptr;
    const double value = std::strtod(text.c_str(), &rest);
    if (rest == text.c_str()) continue;
    metrics.Set(match.groups.size() > 1 ? std::string(match.groups[0]) : regex_metric_, value);
  }
  if (metrics.object().empty()) return std::nullopt;
  return metrics;
}

void LiveAttempt::TakeLine(std::string_view line, uint64_t end_offset) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::optional<Json> metrics;
  if (line.starts_with(kReportPrefix)) {
    auto json = Json::Parse(line.substr(kReportPrefix.size()));
    if (!json.ok()) return Refuse(json.status());
    metrics = std::move(*json);
  } else if (regex_ && line.size() < limits::kPatternLineBytes) {
    metrics = MatchMetrics(line);
  }
  if (!metrics) return;
  auto row = AddRow(*metrics, {.stdout_offset = end_offset});
  if (!row.ok()) Refuse(row.status());
}

void LiveAttempt::Refuse(const absl::Status& why) {
  if (const uint64_t count = line_refusals_.Note(SteadyClock()); count > 0) {
    RT_LOG(kWarning) << rt::ToString(fence()) << ": "
                     << (count == 1
                             ? "a report line was rejected"
                             : std::to_string(count) + " report lines were rejected, the last one")
                     << ": " << MessageOf(why);
  }
  if (lines_refused_++ == 0) first_refused_ = MessageOf(why);
}

void LiveAttempt::NoteRefused(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  if (reports_refused_++ == 0) first_report_refused_ = MessageOf(why);
}

std::string LiveAttempt::WhatWasRefused() const {
  const auto counted = [](uint64_t count, const char* one, const std::string& many) {
    return count == 1 ? one : std::to_string(count) + many;
  };
  if (lines_refused_ > 0) {
    return counted(lines_refused_, "a report line was", " report lines were") +
           " rejected: " + first_refused_;
  }
  std::lock_guard lock(mutex_);
  if (reports_refused_ == 0) return regex_refused_;
  return counted(reports_refused_, "a report was", " reports were") +
         " rejected: " + first_report_refused_;
}

std::shared_ptr<LiveAttempt> AttemptTable::Find(const Fence& fence) const {
  std::lock_guard lock(mutex_);
  auto found = attempts_.find(fence);
  return found == attempts_.end() ? nullptr : found->second;
}
AttemptTable::AttemptTable(std::string head_file, std::string cluster_id, uint64_t incarnation)
    : head_file_(std::move(head_file)), cluster_id_(std::move(cluster_id)),
      incarnation_(incarnation) {
  auto kept = ReadFile(head_file_, 4096);
  const std::vector<std::string> words = kept.ok() ? Split(*kept, ' ') : std::vector<std::string>();
  if (words.size() == 2 && words[0] == cluster_id_)
    head_epoch_ = std::strtoull(words[1].c_str(), nullptr, 10);
}

// The thread of the Syncs alone calls this.
void AttemptTable::NoteHead(uint64_t epoch) {
  if (epoch <= head_epoch_) return;
  head_epoch_ = epoch;
  if (head_file_.empty()) return;
  const std::string line = cluster_id_ + " " + std::to_string(epoch) + "\n";
  absl::Status kept = WriteFileAtomic(head_file_, line, {.sync = false});
  if (!kept.ok()) {
    RT_LOG(kWarning) << MessageOf(kept);
  }
}

void AttemptTable::Add(std::shared_ptr<LiveAttempt> attempt) {
  std::lock_guard lock(mutex_);
  attempts_[attempt->fence()] = std::move(attempt);
}
void AttemptTable::Remove(const Fence& fence) {
  std::lock_guard lock(mutex_);
  attempts_.erase(fence);
}
std::vector<std::shared_ptr<LiveAttempt>> AttemptTable::All() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<LiveAttempt>> all;
  for (const auto& [fence, attempt] : attempts_) all.push_back(attempt);
  return all;
}

std::vector<ProfileReport> AttemptTable::Profiles() const {
  std::vector<ProfileReport> profiles;
  for (const auto& attempt : All()) {
    if (!attempt->body().takes_profile) continue;
    if (auto next = attempt->profile().Next())
      profiles.push_back({attempt->fence(), next->seq, std::move(next->profile)});
  }
  return profiles;
}

}  // namespace rt::worker
