// A thin owner of a connection to PostgreSQL, with errors as Status: Unavailable when the
// connection is gone (what was asked may or may not have been done), ResourceExhausted for a full
// disk, PermissionDenied for credentials. Values travel in binary. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

struct pg_conn;
struct pg_result;

namespace rt {

class PostgresResult {
 public:
  explicit PostgresResult(pg_result* result) : result_(result) {}
  PostgresResult(PostgresResult&& other) noexcept : result_(other.result_) {
    other.result_ = nullptr;
  }
  PostgresResult& operator=(PostgresResult&& other) noexcept;
  ~PostgresResult();

  int size() const;      // Lines.
  int affected() const;  // By an UPDATE, INSERT or DELETE.
  // Lines and columns count from 0. A bigint; bytea or text, valid as long as this lives.
  uint64_t Number(int line, int column) const;
  std::string_view Bytes(int line, int column) const;

 private:
  pg_result* result_;
};

class PostgresDatabase {
 public:
  using Value = std::variant<uint64_t, std::string_view>;  // bigint; bytea or text, as cast.

  // `url` as libpq takes it: postgres://user@host:port/database?passfile=…, also from PGPASSFILE.
  static absl::StatusOr<std::unique_ptr<PostgresDatabase>> Connect(const std::string& url);
  ~PostgresDatabase();
  PostgresDatabase(const PostgresDatabase&) = delete;
  PostgresDatabase& operator=(const PostgresDatabase&) = delete;

  absl::Status Execute(const char* sql);  // Several statements are fine.
  absl::StatusOr<PostgresResult> Query(const char* sql, const std::vector<Value>& values = {});
  // `sql` is COPY … FROM STDIN (FORMAT binary); `lines` made by PostgresLines.
  absl::Status Copy(const char* sql, std::string_view lines);
  uint64_t backend_pid() const;

 private:
  explicit PostgresDatabase(pg_conn* handle) : handle_(handle) {}
  absl::StatusOr<PostgresResult> Check(pg_result* result, std::string_view what) const;

  pg_conn* handle_;
};

// Lines for Copy: columns one after the other, as many as were announced.
class PostgresLines {
 public:
  explicit PostgresLines(uint16_t columns);
  void Begin();
  void Add(uint64_t value);
  void Add(std::string_view bytes);
  bool empty() const { return lines_ == 0; }
  std::string Take();

 private:
  void Big(uint64_t value, int bytes);
  const uint16_t columns_;
  uint64_t lines_ = 0;
  std::string bytes_;
};

}  // namespace rt
