// The reading half of the SQLite journal: connections of its own, so that nobody waits for the
// writer, and every hash checked on the way. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "head/journal/journal.h"
#include "head/journal/sqlite_file.h"

namespace rt {

class SqliteReads {
 public:
  using Visit = std::function<absl::Status(const Record&)>;

  explicit SqliteReads(const SqliteFile& file) : file_(file) {}

  // As Journal's functions of these names; `limit` bounds the records.
  absl::Status Read(uint64_t after_seq, uint64_t limit, const Visit& visit);
  absl::StatusOr<Batch> ReadBatch(uint64_t after_seq, size_t records_max);
  absl::StatusOr<std::vector<StoredRows>> ReadRows(const Owner& owner, const RowPlace& after,
                                                   size_t bytes_max);
  // The chain's hash at a record; DataLoss when there is none.
  absl::StatusOr<std::string> HashAt(uint64_t seq);

 private:
  // A connection, given back when the lease ends.
  class Reader {
   public:
    Reader(SqliteReads& reads, std::unique_ptr<SqliteDatabase> database)
        : reads_(&reads), database_(std::move(database)) {}
    Reader(Reader&&) = default;
    ~Reader();
    SqliteDatabase& operator*() { return *database_; }

   private:
    SqliteReads* reads_;
    std::unique_ptr<SqliteDatabase> database_;
  };
  absl::StatusOr<Reader> Lease();
  absl::Status VisitEvents(SqliteDatabase& database, uint64_t after_seq, uint64_t limit,
                           const Visit& visit);

  const SqliteFile& file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SqliteDatabase>> idle_;
};

}  // namespace rt
