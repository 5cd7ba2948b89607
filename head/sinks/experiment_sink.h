// The result files of one experiment, with a queue of their own: a directory that is slow, full or
// refuses holds up no other experiment. The tail of the journal (result_sinks.h) pushes tasks; a
// thread of the sinks' pool works through them, one thread at a time. A queue that grows too long
// drops the rows in it: the trial's files are then written again from the journal.
//
// A trial whose files cannot be written is tried again later, unless no other attempt can succeed
// (its name is too long). Its rows stay in the journal, and Problem says why.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/run/folder.h"
#include "common/run/io_pool.h"
#include "common/run/result_roots.h"
#include "head/journal/journal.h"
#include "head/sinks/cursor.h"
#include "head/sinks/replica.h"
#include "head/sinks/trial_files.h"

namespace rt {

// What the journal's record `seq` means for the files.
struct SinkTask {
  enum class Kind {
    kBegin,     // Of the experiment: `at`.
    kParams,    // Of a new trial, and of one that was cloned: its configuration is another one.
    kRows,      // `rows`; `has_earlier`: there are rows before these.
    kRewrite,   // Everything of the trial again, as the replica has it by then.
    kRunAgain,  // The trial's error is of no account any more.
    kEnd,       // Of the trial: `at`, `end`, and `error` with `reason` when it failed.
    kSync,      // Everything so far is to be durable.
  };
  Kind kind = Kind::kBegin;
  uint64_t seq = 0;
  uint32_t trial = 0;  // Its number.
  Millis at = 0;
  std::vector<Json> rows = {};
  bool has_earlier = false;
  TrialEnd end = TrialEnd::kNone;
  ErrorInfo error = {};
  std::string reason = {};
  size_t bytes = 0;  // Roughly, of the rows.
};

// Whether a row of the trial counts: it was not superseded by a restart from before it.

class ExperimentSink {
 public:
  struct Parts {
    Journal& journal;
    Replica& replica;
    IoPool& pool;
    const ResultRoots& roots;
    std::function<void()> on_idle;  // On a thread of the pool.
    Millis retry_after;
  };
  ExperimentSink(ExperimentId id, std::string results_dir, const Parts& parts);

  // What a file holds already, as the cursor said. Before the first Push.
  void Adopt(uint32_t trial, TrialFilesMark mark);
  void Push(SinkTask task);
  // Tries again what was refused, when it is time; `now`: also before that.
  void Poke(bool now);

  bool IsIdle();
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);
  bool IsDone();  // Idle, with nothing left to write, to try again or to tell of.
  // For the cursor: of every trial with rows that is not over, how long its files are, or that they
  // are to be written again. While tasks are at hand that is all of them.
  struct Standing {
    bool is_begun = true;
    std::map<uint32_t, TrialFilesMark> open;
    std::set<uint32_t> refused;
  };
  Standing GetStanding();
  // What could not be written and why, in a sentence; empty when everything was.
  std::string Problem();

 private:
  using Clock = std::chrono::steady_clock;
  struct Refusal {
    absl::Status why;  // OK: a key came late, and the columns are to be written again.
    bool is_final = false;
    Clock::time_point due;
  };

  void Schedule();  // Holds mutex_.
  void Work();
  void Take(const SinkTask& task);
  void TakeBegin(Millis created_at);
  void TakeParams(uint32_t trial);
  absl::Status WritePolicyOf(uint32_t trial);
  void TakeRows(const SinkTask& task);
  void TakeEnd(const SinkTask& task);
  void TakeSync();
  void RetryDue(bool late_now);
  void FlushTouched();
  void Rewrite(uint32_t trial);
  absl::Status RewriteNow(uint32_t trial);
  absl::StatusOr<std::vector<Json>> RowsUpTo(const Trial& trial, uint64_t seq);
  void Note(uint32_t trial, const absl::Status& status);
  void NoteLateKey(uint32_t trial);
  void NoteColumns(uint32_t trial);
  absl::Status OpenFolder();
  absl::Status InTrial(uint32_t trial, const std::function<absl::Status(const Folder&)>& change);
  TrialFacts FactsOf(uint32_t trial);
  TrialFiles& FilesOf(uint32_t trial);
  void Publish(uint64_t done_to);  // Holds mutex_.

  const ExperimentId id_;
  const std::string results_dir_;
  const Parts parts_;

  // Of the thread that works; while none does, of whoever holds mutex_.
  std::optional<Folder> folder_;  // Opened once for the tasks at hand.
  std::map<uint32_t, TrialFiles> open_;
  std::set<uint32_t> touched_;
  std::set<uint32_t> closing_;
  std::map<uint32_t, uint64_t> written_to_;  // Rewritten as of this record.
  std::map<uint32_t, Refusal> refused_;
  std::map<uint32_t, Clock::time_point> calm_until_;  // No rewrite for late keys before.
  std::set<uint32_t> lacking_columns_;  // Their progress.csv has not every metric.
  std::optional<Refusal> begin_refused_;
  Millis created_at_ = 0;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<SinkTask> queue_;
  size_t queued_bytes_ = 0;
  std::map<uint32_t, size_t> overflowed_;  // Rows are dropped; the place of the rewrite instead.
  std::set<uint32_t> live_;  // Trials that are open, refused, or in a task at hand.
  bool is_begun_ = true;
  bool is_working_ = false;
  bool wants_retry_ = false;
  bool late_now_ = false;
  std::optional<Clock::time_point> next_retry_;
  std::string problem_;
};

}  // namespace rt
