// The rows of one attempt that the head has not acknowledged. A file of JSON lines that outlives
// the daemon (not the machine: rows of a lost machine belong to an attempt that is lost with it),
// so it is not synced. The first lines carry keys and counters, so that the file may be cut when
// all is acknowledged. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/base/time.h"

namespace rt::worker {

struct SpoolRow {
  uint64_t seq = 0;            // Counts from 1, without gaps; given by Append.
  uint64_t client_seq = 0;     // The number the trial gave it; 0: none.
  uint64_t stdout_offset = 0;  // Standard output up to here is in the spool; 0: not from there.
  double iteration = 0;
  double time_total_s = 0;
  Millis timestamp = 0;
  std::string metrics;           // JSON text.
  bool with_checkpoint = false;  // It comes with a checkpoint, whose commit follows.
  bool collective = false;       // Of which other ranks may have shards.
  std::string key;               // The name that a program without numbers of its own gave it.
};
Json ToJson(const SpoolRow& row);
SpoolRow SpoolRowFrom(const Json& json);

class Spool {
 public:
  // Reads what is there; a torn last line (the daemon was killed in the middle) is cut off.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const std::string& path);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Which of the newest rows came under this key, without its metrics: a report that is sent again
  // is one row.
  std::optional<SpoolRow> Find(const std::string& key) const;
  // Gives the row its seq and writes it.
  absl::StatusOr<SpoolRow> Append(SpoolRow row);
  // The oldest unacknowledged rows, at least one if there is any.
  std::vector<SpoolRow> Pending(size_t rows_max, size_t bytes_max) const;
  void Acknowledge(uint64_t seq);
  // The head knows this attempt no more: nobody waits for these rows.
  void Abandon();
  // Nothing is written from here on: the file is about to be another's.
  void Close();

  bool IsFull() const;
  bool HasPending() const;
  uint64_t last_seq() const;
  uint64_t acked_seq() const;  // At least up to here; after a restart it may be more.
  uint64_t last_client_seq() const;
  uint64_t stdout_offset() const;
  double last_iteration() const;  // Meaningless while last_seq() is 0.

 private:
  struct Counters {
    uint64_t seq = 0;
    uint64_t client_seq = 0;
    uint64_t stdout_offset = 0;
    double iteration = 0;
  };
  explicit Spool(std::string path) : path_(std::move(path)) {}
  absl::Status Load();
  absl::Status Create();
  absl::Status Rewrite();
  void Count(const SpoolRow& row);

  const std::string path_;
  mutable std::mutex mutex_;
  int fd_ = -1;
  bool closed_ = false;
  Bytes file_bytes_ = 0;
  Bytes pending_bytes_ = 0;
  Counters last_;
  std::deque<SpoolRow> rows_;
  std::deque<SpoolRow> keyed_;  // The newest with a key, acknowledged or not; no metrics.
};

}  // namespace rt::worker
