// A thin owner of a SQLite connection and of its statements, with errors as Status. Not
// thread-safe: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rt {

class SqliteDatabase {
 public:
  // Opens or, unless `readonly`, creates.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path,
                                                              bool readonly);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  absl::Status Execute(const char* sql);  // Several statements are fine.
  absl::Status Error(int code, std::string_view what) const;
  sqlite3* handle() { return handle_; }

 private:
  explicit SqliteDatabase(sqlite3* handle) : handle_(handle) {}
  sqlite3* handle_;
};

// A prepared statement. Must not outlive its connection.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  static absl::StatusOr<SqliteStatement> Prepare(SqliteDatabase& database, const char* sql);
  SqliteStatement(SqliteStatement&& other) noexcept { *this = std::move(other); }
  SqliteStatement& operator=(SqliteStatement&& other) noexcept;
  ~SqliteStatement();

  // Parameters count from 1. Bytes must live until the statement has run.
  SqliteStatement& Bind(int at, uint64_t value);
  SqliteStatement& Bind(int at, std::string_view bytes);
  absl::StatusOr<bool> Step();  // Whether there is a row.
  absl::Status Run();           // Step for statements without rows; resets.
  void Reset();

  // Columns count from 0; bytes are valid until the next Step.
  uint64_t Number(int column) const;
  std::string_view Bytes(int column) const;

 private:
  SqliteDatabase* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace rt
