// The journal: an append-only log of records with the rows that some of them announce, and
// snapshots of the state. One contract (tests/contract/journal_suite.h) for every implementation.
//
// Append is called from the core thread and returns at once; batches become durable in order, and
// `done` is called from the journal's own thread, once per batch, in order. After the first failure
// every later batch fails too: the caller ends the process, and replay is the recovery.
// Readers and snapshots may be called from any thread and see only durable records.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "head/core/core.h"

namespace rt {

struct Batch {
  std::vector<Record> records;  // Dense seqs that continue the log; not empty.
  std::vector<RowBatch> rows;   // One per ReportsAccepted with count > 0, in the same order.
};

struct Snapshot {
  uint64_t seq = 0;
  std::string state;  // EncodeState (codec.h).
};

// A ReportsAccepted's rows with the seq of its record.
struct StoredRows {
  uint64_t event_seq = 0;
  RowBatch batch;
};
// Where it stands among those of its owner; all 0 is before the first.
struct RowPlace {
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint32_t rank = 0;
  uint64_t event_seq = 0;
  friend auto operator<=>(const RowPlace&, const RowPlace&) = default;
};
inline RowPlace PlaceOf(const StoredRows& rows) {
  const AttemptId& attempt = rows.batch.attempt;
  return {attempt.number, attempt.generation, rows.batch.rank, rows.event_seq};
}

class Journal {
 public:
  using Done = std::function<void(absl::Status)>;
  virtual ~Journal() = default;

  virtual void Append(Batch batch, Done done) = 0;
  virtual uint64_t durable_seq() const = 0;  // Any thread.

  // Calls `visit` for every record after `after_seq`, in order, until it returns an error. Fails
  // with DataLoss when the hash chain is broken, naming the first bad seq.
  virtual absl::Status Read(uint64_t after_seq,
                            const std::function<absl::Status(const Record&)>& visit) = 0;
  // At most `records_max` records after `after_seq` with their rows, for sinks that tail the log.
  virtual absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max) = 0;
  // Rows of one owner behind `after`, in order of RowPlace: as many as make about `bytes_max`, and
  // at least one batch. None: there are no more.
  virtual absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner,
                                                           const RowPlace& after,
                                                           size_t bytes_max) = 0;

  // The chain's hash at a record (chain.h); DataLoss when there is none.
  virtual absl::StatusOr<std::string> HashAt(uint64_t seq) = 0;

  // The newest one that includes nothing after `seq_max`.
  virtual absl::StatusOr<std::optional<Snapshot>> LatestSnapshot(uint64_t seq_max) = 0;
  // Blocks until it is durable, and holds up no append. Never from the core thread. Older snapshots
  // may be dropped then, but for the one before: readers that are behind may still want it.
  virtual absl::Status WriteSnapshot(const Snapshot& snapshot) = 0;

  // Up to where another place has it too; nothing when none is meant to.
  virtual std::optional<uint64_t> shipped_seq() const { return std::nullopt; }
  // Bytes handed to the disk since it was opened, for the benchmarks.
  virtual uint64_t bytes_synced() const = 0;
};

}  // namespace rt
