// One attempt while this daemon looks after it: its spool, the rows' counters, what the head said
// of them, the reports in its standard output, its last error. Shared by the loop (stdout, end),
// the trial socket (reports) and the report loop (verdicts), hence thread-safe and held by
// shared_ptr.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/pattern.h"
#include "worker/core/worker_core.h"
#include "worker/launch/launch_body.h"
#include "worker/session/gpu_rows.h"
#include "worker/session/log_reader.h"
#include "worker/session/metric_keys.h"
#include "worker/session/profile_line.h"
#include "worker/session/refusal_log.h"
#include "worker/session/report_intervals.h"
#include "worker/session/spool.h"

namespace rt::worker {

// What the head answered for this rank's rows so far.
struct Standing {
  uint64_t acked_seq = 0;
  uint64_t decided_seq = 0;
  bool stop = false;
  uint64_t stop_seq = 0;
  std::string reason;
  bool stale = false;
  bool suspend = false;  // It is asked to save and end.
  bool evict = false;    // It is asked to save, because its node drains, and ends once it has.
  Millis evict_by = 0;   // The deadline; 0: none.
  bool save = false;     // It is asked to save, and then continues.
  uint32_t thaws = 0;    // As this daemon saw: how often it continued after it was frozen.
  Millis frozen_for = 0;  // In all, by then.
};
struct ReportOptions {
  uint64_t client_seq = 0;
  std::string key;
  uint64_t stdout_offset = 0;
  bool wait = false;             // report() waits for the verdict: send the row at once.
  bool with_checkpoint = false;  // It comes with a checkpoint.
  bool collective = false;       // Of which other ranks may have shards.
};

// Loops that an attempt wakes, from any thread.
struct LiveEvents {
  std::function<void(bool urgent)> on_row;  // The report loop.
  std::function<void()> on_closed;          // The worker loop: its socket may be done with.
  // What its gpus did so far; none: nobody knows.
  std::function<GpuUse(const Fence&)> gpu_use = {};
};

class LiveAttempt {
 public:
  static absl::StatusOr<std::shared_ptr<LiveAttempt>> Open(LaunchBody body, RunDir dir,
                                                           LiveEvents events);

  const LaunchBody& body() const { return body_; }
  const Fence& fence() const { return body_.fence; }
  const RunDir& dir() const { return dir_; }
  Spool& spool() { return *spool_; }
  ProfileQueue& profile() { return profile_; }

  // Checks, fills in iteration, time and timestamp, and spools. Of a report that is sent again
  // after a lost connection the row that it was, which is not spooled twice.
  absl::StatusOr<SpoolRow> AddRow(const Json& metrics, const ReportOptions& options);
  void OnVerdict(const Standing& verdict);
  void NoteStop(const std::string& reason);
  // It is asked to save and end; `saved` is called once it has. False: it is not connected.
  bool NoteSuspend(std::function<void()> saved);
  // Its node drains: `saved` is called once a checkpoint is committed that it reports from now
  // on. Repeated, this says another deadline.
  void NoteEviction(Millis by, std::function<void()> saved);
  void NoteEvictionCancelled();  // A false alarm.
  // It is asked to save before it is frozen; `saved` is called once it has, or says that it never
  // does. False: it is not connected. And it is not asked any more.
  bool NoteSave(std::function<void()> saved);
  void NoteSaveOver();
  void NothingToSave();
  // It is about to continue after it was frozen for so long in all: it is told, and its time does
  // not count that. Whether it was told, or cannot be.
  void NoteThaw(Millis frozen_for);
  void NoteThawTold(uint32_t thaws);
  bool is_thaw_told() const;
  void NoteSaved(uint64_t seq);  // The checkpoint that came with this row is committed.
  // Of a gang: the newest row with a complete checkpoint.
  void NoteComplete(uint64_t seq);
  uint64_t complete_seq() const;  // 0: none is known.
  void SaySuspended();            // The trial itself: it ends because of that. Outlives the daemon.
  bool said_suspended() const { return said_suspended_; }
  void SayOrphaned();  // Its daemon: it is asked to end because no head answers. Outlives it, too.
  bool said_orphaned() const;
  // The driver has decided about the rows up to here; whether that is new.
  bool NoteDecided(uint64_t seq);
  // Whether the row has its verdict: from the head, and from the driver where one schedules.
  bool IsSettled(const Standing& standing, uint64_t seq) const;
  Standing standing() const;

  void SetError(const Error& error);  // What the trial itself said went wrong.
  // The error that the trial reported; else, for a failure, the last 20 lines of standard error.
  Error LastError(const ExitFacts& exit) const;

  // Takes reports from standard output; true when everything that is there was looked at.
  bool PumpStdout(bool at_end);

  // Rows that no report() waits for go to the head now: the attempt's end waits for them.
  void Flush();

  // A report through the socket was refused.
  void NoteRefused(const absl::Status& why);
  // Which lines that looked like reports, or which reports through the socket, were refused, or why
  // the pattern for its output is switched off; "" when there was nothing of the kind.
  std::string WhatWasRefused() const;

  // Why its watchdog should end it; nullopt: it reports, or cannot, or has no watchdog. `busy`:
  // what it reported is still being taken from it.
  std::optional<std::string> WhyHung(bool busy);
  // The program could not have reported in this time.
  void ExcuseSilence();

  // One more call of its driver is under way; false: kDriverCallsMax are. Any thread.
  bool BeginDriverCall();
  void EndDriverCall() { --driver_calls_; }
  void KeepDriverCall() { ++driver_calls_; }  // It has ended, and will be made again.

  // Told by the socket: the end is reported only after all of it was read.
  void NoteConnected() { ++connections_; }
  void NoteDisconnected();
  void NoteListenerClosed();
  bool IsSocketDone() const { return listener_closed_ && connections_ == 0; }

 private:
  LiveAttempt(LaunchBody body, RunDir dir, LiveEvents events);
  // Whether the trial's report of that number is a row already.
  bool IsSpooled(uint64_t client_seq) const;
  // The metrics of a row, with those of its gpus where the experiment asks for them.
  Json WithGpus(const Json& metrics);
  absl::StatusOr<SpoolRow> RowOf(const Json& metrics, const ReportOptions& options) const;
  void OpenPattern();
  std::optional<Json> MatchMetrics(std::string_view line);
  void TakeLine(std::string_view line, uint64_t end_offset);
  void Refuse(const absl::Status& why);

  const LaunchBody body_;
  const RunDir dir_;
  const LiveEvents events_;
  std::unique_ptr<Spool> spool_;
  ProfileQueue profile_;
  std::atomic<int> connections_{0};
  std::atomic<int> driver_calls_{0};
  std::atomic<bool> listener_closed_{false};
  std::atomic<bool> said_suspended_{false};
  std::optional<Pattern> regex_;
  std::string regex_refused_;
  std::string regex_metric_ = "metric";  // What a group alone is the number of.
  bool awaits_decision_ = false;         // By the experiment's driver.
  std::mutex adding_;                    // One row's iteration follows from the one before it.
  MetricKeys keys_;                      // Of its rows; guarded by adding_, as the next.
  GpuRows gpu_rows_;
  mutable std::mutex mutex_;
  Standing standing_;
  std::optional<Error> error_;
  uint64_t reports_refused_ = 0;  // Through the socket, as this daemon saw.
  std::string first_report_refused_;
  std::function<void()> on_suspend_saved_;
  std::function<void()> on_evict_saved_;
  std::function<void()> on_save_saved_;
  uint32_t thaws_told_ = 0;
  std::optional<uint64_t> complete_seq_;  // As the head said last.
  ReportIntervals report_intervals_;      // By SteadyClock().
  uint64_t evict_after_ = 0;              // The newest row when it was asked.
  LogReader stdout_;                      // The loop's thread only, as are the next.
  std::string partial_;
  uint64_t lines_refused_ = 0;  // Seen by this daemon.
  std::string first_refused_;
  RefusalLog line_refusals_;
};

// The attempts of this daemon, by fence. Thread-safe.
class AttemptTable {
 public:
  AttemptTable() = default;
  // The file keeps head_epoch() of this cluster for the next daemon; `incarnation` is this one's.
  AttemptTable(std::string head_file, std::string cluster_id, uint64_t incarnation);
  std::shared_ptr<LiveAttempt> Find(const Fence& fence) const;
  void Add(std::shared_ptr<LiveAttempt> attempt);
  void Remove(const Fence& fence);
  std::vector<std::shared_ptr<LiveAttempt>> All() const;
  // What the attempts have measured and the head is to record.
  std::vector<ProfileReport> Profiles() const;
  // The epoch of the newest head that sent a desired state: an older one must not decide about
  // rows.
  void NoteHead(uint64_t epoch);
  uint64_t head_epoch() const { return head_epoch_; }
  uint64_t incarnation() const { return incarnation_; }
  void set_incarnation(uint64_t incarnation) { incarnation_ = incarnation; }

 private:
  mutable std::mutex mutex_;
  std::map<Fence, std::shared_ptr<LiveAttempt>> attempts_;
  std::atomic<uint64_t> head_epoch_ = 0;
  std::string head_file_, cluster_id_;
  std::atomic<uint64_t> incarnation_ = 0;
};

}  // namespace rt::worker
