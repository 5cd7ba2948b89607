// The reading half of the journal in PostgreSQL: connections of its own, so that nobody waits for
// the writer, and every hash checked on the way. Also what a standby follows. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "head/journal/journal.h"
#include "head/journal/postgres_database.h"

namespace rt {

class PostgresReads {
 public:
  using Visit = std::function<absl::Status(const Record&)>;

  explicit PostgresReads(std::string url) : url_(std::move(url)) {}

  // As Journal's functions of these names.
  absl::Status Read(uint64_t after_seq, const Visit& visit);
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max);
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner, const RowPlace& after,
                                                   size_t bytes_max);
  absl::StatusOr<std::optional<Snapshot>> LatestSnapshot(uint64_t seq_max);
  absl::Status WriteSnapshot(const Snapshot& snapshot);
  // The chain's hash at a record; DataLoss when there is none.
  absl::StatusOr<std::string> HashAt(uint64_t seq);

 private:
  // A connection, given back when the lease ends; one that broke is not.
  class Reader {
   public:
    Reader(PostgresReads& reads, std::unique_ptr<PostgresDatabase> database)
        : reads_(&reads), database_(std::move(database)) {}
    Reader(Reader&&) = default;
    ~Reader();
    PostgresDatabase& operator*() { return *database_; }
    PostgresDatabase* operator->() { return database_.get(); }
    void Drop() { database_.reset(); }

   private:
    PostgresReads* reads_;
    std::unique_ptr<PostgresDatabase> database_;
  };
  absl::StatusOr<Reader> Lease();
  // Reads are repeated once on a new connection when the old one is gone.
  absl::StatusOr<PostgresResult> Ask(const char* sql,
                                     const std::vector<PostgresDatabase::Value>& values);
  // At most `limit` records; whether the log ended before that many.
  absl::StatusOr<bool> VisitSome(uint64_t& after_seq, uint64_t limit, const Visit& visit);

  const std::string url_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PostgresDatabase>> idle_;
};

}  // namespace rt
