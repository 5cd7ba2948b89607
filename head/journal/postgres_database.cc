#include "head/journal/postgres_database.h"


#include <cstdlib>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/journal/libpq.h"

namespace rt {
namespace {

// A server that vanished without a word is given up after this long.
constexpr char kConnectTimeoutSeconds[] = "5";
constexpr char kUnackedMillis[] = "10000";
// Of pg_type: they never change.
constexpr Oid kBigint = 20, kBytea = 17;

std::string BigEndian(uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(value >> shift);
  return text;
}

absl::Status ErrorOf(const PGconn* connection, const char* sqlstate, std::string_view what) {
  std::string message(Trim(Pq().PQerrorMessage(connection)));
  if (message.empty()) message = "the connection was lost";
  message = std::string(what.substr(0, 30)) + "…: " + message;
  const std::string_view state = sqlstate == nullptr ? "" : sqlstate;
  // Without a state it is not the server who says so: its word was not heard; PQstatus may still
  // be fine then. 57P01-3: the server ends our connection. 55P03, 57014: it took too long.
  const bool is_gone = state.empty() || Pq().PQstatus(connection) != CONNECTION_OK ||
                       state.starts_with("57P") || state.starts_with("08") || state == "55P03" ||
                       state == "57014";
  if (is_gone) return absl::UnavailableError(message);
  if (state.starts_with("53")) return absl::ResourceExhaustedError(message);
  if (state.starts_with("28") || state == "42501") return absl::PermissionDeniedError(message);
  if (state == "XX001" || state == "XX002") return absl::DataLossError(message);
  return absl::InternalError(message);
}

}  // namespace

PostgresResult& PostgresResult::operator=(PostgresResult&& other) noexcept {
  std::swap(result_, other.result_);
  return *this;
}
PostgresResult::~PostgresResult() { Pq().PQclear(result_); }
int PostgresResult::size() const { return Pq().PQntuples(result_); }
int PostgresResult::affected() const { return std::atoi(Pq().PQcmdTuples(result_)); }

uint64_t PostgresResult::Number(int line, int column) const {
  uint64_t value = 0;
  for (char byte : Bytes(line, column)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

std::string_view PostgresResult::Bytes(int line, int column) const {
  return {Pq().PQgetvalue(result_, line, column),
          static_cast<size_t>(Pq().PQgetlength(result_, line, column))};
}

absl::StatusOr<std::unique_ptr<PostgresDatabase>> PostgresDatabase::Connect(
    const std::string& url) {
  // What the URL says comes later and wins.
  const char* names[] = {"connect_timeout",  "tcp_user_timeout", "keepalives_idle",
                         "application_name", "client_encoding",  "dbname", nullptr};
  const char* values[] = {kConnectTimeoutSeconds, kUnackedMillis, "2", "rt-head", "UTF8",
                          url.c_str(), nullptr};
  RT_RETURN_IF_ERROR(OpenLibPq().status());
  PGconn* handle = Pq().PQconnectdbParams(names, values, 1);
  std::unique_ptr<PostgresDatabase> database(new PostgresDatabase(handle));
  if (Pq().PQstatus(handle) == CONNECTION_OK) {
    // Notices ("… already exists") are of no interest to the head's log.
    Pq().PQsetNoticeProcessor(handle, [](void*, const char*) {}, nullptr);
    return database;
  }
  const std::string message(Trim(Pq().PQerrorMessage(handle)));
  // The connection cannot say why in a code: its words must do.
  for (const char* refusal : {"authentication failed", "no password supplied", "pg_hba.conf"}) {
    if (message.find(refusal) == std::string::npos) continue;
    return WithHint(absl::PermissionDeniedError(ToAbsl(message)),
                    "the password comes from passfile=FILE in the URL, or from PGPASSFILE");
  }
  return absl::UnavailableError(ToAbsl(message));
}

PostgresDatabase::~PostgresDatabase() { Pq().PQfinish(handle_); }

uint64_t PostgresDatabase::backend_pid() const {
  return static_cast<uint64_t>(Pq().PQbackendPID(handle_));
}

absl::StatusOr<PostgresResult> PostgresDatabase::Check(pg_result* raw,
                                                       std::string_view what) const {
  PostgresResult result(raw);
  const ExecStatusType status = Pq().PQresultStatus(raw);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN)
    return result;
  return ErrorOf(handle_, Pq().PQresultErrorField(raw, PG_DIAG_SQLSTATE), what);
}

absl::Status PostgresDatabase::Execute(const char* sql) {
  return Check(Pq().PQexec(handle_, sql), sql).status();
}

absl::StatusOr<PostgresResult> PostgresDatabase::Query(const char* sql,
                                                       const std::vector<Value>& values) {
  std::vector<std::string> numbers(values.size());
  std::vector<const char*> texts;
  std::vector<int> lengths, formats(values.size(), 1);
  std::vector<Oid> types;
  for (size_t i = 0; i < values.size(); ++i) {
    std::string_view bytes;
    if (const auto* number = std::get_if<uint64_t>(&values[i])) {
      bytes = numbers[i] = BigEndian(*number, 8);
      types.push_back(kBigint);
    } else {
      bytes = std::get<std::string_view>(values[i]);
      types.push_back(kBytea);
    }
    texts.push_back(bytes.data());
    lengths.push_back(static_cast<int>(bytes.size()));
  }
  return Check(Pq().PQexecParams(handle_, sql, static_cast<int>(values.size()), types.data(),
                            texts.data(), lengths.data(), formats.data(), 1), sql);
}

absl::Status PostgresDatabase::Copy(const char* sql, std::string_view lines) {
  RT_RETURN_IF_ERROR(Execute(sql));
  constexpr size_t kPiece = 1u << 20;
  bool sent = true;
  for (size_t at = 0; sent && at < lines.size(); at += kPiece) {
    const std::string_view piece = lines.substr(at, kPiece);
    sent = Pq().PQputCopyData(handle_, piece.data(), static_cast<int>(piece.size())) == 1;
  }
  if (!sent || Pq().PQputCopyEnd(handle_, nullptr) != 1) return ErrorOf(handle_, nullptr, sql);
  absl::Status status = Check(Pq().PQgetResult(handle_), sql).status();
  while (PGresult* rest = Pq().PQgetResult(handle_)) Pq().PQclear(rest);
  return status;
}

PostgresLines::PostgresLines(uint16_t columns) : columns_(columns) {
  bytes_.append("PGCOPY\n\377\r\n\0", 11);
  Big(0, 4);  // Flags.
  Big(0, 4);  // Nothing more in the header.
}

void PostgresLines::Big(uint64_t value, int bytes) { bytes_ += BigEndian(value, bytes); }

void PostgresLines::Begin() {
  ++lines_;
  Big(columns_, 2);
}

void PostgresLines::Add(uint64_t value) {
  Big(8, 4);
  Big(value, 8);
}

void PostgresLines::Add(std::string_view bytes) {
  Big(bytes.size(), 4);
  bytes_ += bytes;
}

std::string PostgresLines::Take() {
  Big(0xffff, 2);  // No more lines.
  return std::move(bytes_);
}

}  // namespace rt
