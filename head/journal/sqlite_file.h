// The file in which the SQLite journal lives: its lock, its header, its tables, and the settings of
// every connection to it. Open it once; connections for reading may be made from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "head/journal/sqlite_database.h"

namespace rt {

inline constexpr uint64_t kJournalPageBytes = 8'192;

class SqliteFile {
 public:
  // Creates the file and its tables when they are not there. `version` is written into the header.
  // A draft is begun anew, and nothing in it is durable. For the errors see OpenSqliteJournal.
  static absl::StatusOr<std::unique_ptr<SqliteFile>> Open(const std::string& path,
                                                          const std::string& version,
                                                          bool is_draft = false);
  // Of a draft that is closed: the index, which costs far less once all rows are there.
  static absl::Status FinishDraft(const std::string& path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  SqliteDatabase& writer() { return *writer_; }
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenReader() const;
  // For messages: the path and who wrote the file last.
  std::string Describe() const { return path_ + ", written by rt " + writer_version_; }
  const std::string& path() const { return path_; }

 private:
  explicit SqliteFile(std::string path) : path_(std::move(path)) {}
  absl::Status Lock();
  absl::Status CheckHeader(const std::string& version, bool is_draft);
  absl::Status CreateTables(const std::string& version, bool is_draft);

  const std::string path_;
  int lock_fd_ = -1;
  std::string writer_version_;
  std::unique_ptr<SqliteDatabase> writer_;
};

}  // namespace rt
