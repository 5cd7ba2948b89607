#include "head/journal/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "common/base/status.h"

namespace rt {

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path,
                                                                     bool readonly) {
  // Made here with our mode: SQLite would make it readable for all; -wal and -shm take after it.
  int fd = readonly ? -1 : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  sqlite3* handle = nullptr;
  const int flags = (readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(handle));
  if (code != SQLITE_OK) return database->Error(code, "open " + path);
  sqlite3_extended_result_codes(handle, 1);
  return database;
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close_v2(handle_); }

absl::Status SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

absl::Status SqliteDatabase::Error(int code, std::string_view what) const {
  std::string message = std::string(what) + ": " +
                        (handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code));
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::DataLossError(message);
    case SQLITE_FULL: return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::UnavailableError(message);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH: return absl::PermissionDeniedError(message);
    case SQLITE_CANTOPEN: return absl::FailedPreconditionError(message);
    default: return absl::InternalError(message);
  }
}

absl::StatusOr<SqliteStatement> SqliteStatement::Prepare(SqliteDatabase& database,
                                                         const char* sql) {
  SqliteStatement result;
  result.database_ = &database;
  const int code = sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      &result.statement_, nullptr);
  if (code != SQLITE_OK) return database.Error(code, sql);
  return result;
}

SqliteStatement& SqliteStatement::operator=(SqliteStatement&& other) noexcept {
  std::swap(database_, other.database_);
  std::swap(statement_, other.statement_);
  return *this;
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

SqliteStatement& SqliteStatement::Bind(int at, uint64_t value) {
  sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(value));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int at, std::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();
  sqlite3_bind_blob64(statement_, at, data, bytes.size(), SQLITE_STATIC);
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code, sqlite3_sql(statement_));
}

absl::Status SqliteStatement::Run() {
  absl::Status status = Step().status();
  Reset();
  return status;
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

uint64_t SqliteStatement::Number(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
}

std::string_view SqliteStatement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

}  // namespace rt
