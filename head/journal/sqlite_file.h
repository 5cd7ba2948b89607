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
  // For the errors see OpenSqliteJournal.
  static absl::StatusOr<std::unique_ptr<SqliteFile>> Open(const std::string& path,
                                                          const std::string& version);
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
  absl::Status CheckHeader(const std::string& version);
  absl::Status CreateTables(const std::string& version);

  const std::string path_;
  int lock_fd_ = -1;
  std::string writer_version_;
  std::unique_ptr<SqliteDatabase> writer_;
};

}  // namespace rt
