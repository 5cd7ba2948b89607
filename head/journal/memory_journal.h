// A journal in memory, for tests and the simulator. Batches become durable inside Append, or, when
// held, as Release lets them; it can be told to fail, and to lose what is in flight as a crash of
// the machine would. Thread-safe; `done` runs on the thread that made the batch durable.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "head/journal/journal.h"

namespace rt {

class MemoryJournal final : public Journal {
 public:
  void Append(Batch batch, Done done) override;
  uint64_t durable_seq() const override { return durable_seq_; }
  absl::Status Read(uint64_t after_seq,
                    const std::function<absl::Status(const Record&)>& visit) override;
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max) override;
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner, const RowPlace& after,
                                                   size_t bytes_max) override;
  absl::StatusOr<std::string> HashAt(uint64_t seq) override;  // Computed: a pass over the log.
  absl::StatusOr<std::optional<Snapshot>> LatestSnapshot(uint64_t seq_max) override;
  absl::Status WriteSnapshot(const Snapshot& snapshot) override;
  uint64_t bytes_synced() const override { return 0; }

  // From now on batches wait for Release; `false` releases what waits.
  void Hold(bool hold);
  // Makes at most `batches` waiting ones durable, in order; returns how many.
  size_t Release(size_t batches = SIZE_MAX);
  size_t waiting() const;
  // The next batch to become durable, and every later one, fails with this.
  void Fail(absl::Status status);
  // A crash: what waits is gone and its `done` is never called. What is durable can be read on, and
  // appended to.
  void Crash();

 private:
  struct Pending {
    Batch batch;
    Done done;
  };
  void Settle(Pending pending);  // Without the lock.

  mutable std::mutex mutex_;
  std::vector<Record> records_;          // Record of seq s is at s - 1.
  std::vector<StoredRows> rows_;         // Ascending by event_seq.
  std::deque<Pending> pending_;
  std::map<uint64_t, Snapshot> snapshots_;
  absl::Status failure_;
  bool hold_ = false;
  uint64_t appended_seq_ = 0;
  std::atomic<uint64_t> durable_seq_ = 0;
};

}  // namespace rt
