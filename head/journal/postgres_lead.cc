#include "head/journal/postgres_lead.h"

#include "common/base/status.h"

namespace rt {
namespace {

constexpr uint64_t kFormat = 1;
constexpr uint64_t kOldestReader = 1;
constexpr char kTables[] =
    "CREATE TABLE IF NOT EXISTS rt_meta(key text PRIMARY KEY, value bytea NOT NULL);"
    "CREATE TABLE IF NOT EXISTS rt_events(seq bigint PRIMARY KEY, at bigint NOT NULL,"
    " type bigint NOT NULL, body bytea NOT NULL, hash bytea NOT NULL);"
    "CREATE TABLE IF NOT EXISTS rt_rows(event_seq bigint PRIMARY KEY, kind bigint NOT NULL,"
    " grp bigint NOT NULL, number bigint NOT NULL, attempt bigint NOT NULL,"
    " generation bigint NOT NULL, rank bigint NOT NULL, seq_from bigint NOT NULL,"
    " seq_to bigint NOT NULL, body bytea NOT NULL, hash bytea NOT NULL);"
    "CREATE INDEX IF NOT EXISTS rt_rows_by_owner ON"
    " rt_rows(kind, grp, number, attempt, generation, rank, event_seq);"
    "CREATE TABLE IF NOT EXISTS rt_snapshots(seq bigint PRIMARY KEY, bytes bytea NOT NULL);"
    "CREATE TABLE IF NOT EXISTS rt_lead(one boolean PRIMARY KEY CHECK (one), epoch bigint NOT NULL,"
    " holder bytea NOT NULL, address bytea NOT NULL, renewed_at timestamptz NOT NULL)"
    " WITH (fillfactor = 10);"
    "INSERT INTO rt_lead VALUES(true, 0, '', '', '-infinity') ON CONFLICT DO NOTHING;";
// Any number that nobody else locks by.
constexpr char kLock[] = "SELECT pg_advisory_xact_lock(8387123001)";

absl::Status CheckHeader(PostgresDatabase& database, const std::string& version) {
  RT_ASSIGN_OR_RETURN(PostgresResult header, database.Query(
      "SELECT key, value FROM rt_meta WHERE key IN ('format', 'oldest_reader', 'writer')"));
  std::string format, oldest, writer;
  for (int i = 0; i < header.size(); ++i) {
    const std::string_view key = header.Bytes(i, 0);
    (key == "format" ? format : key == "writer" ? writer : oldest) = header.Bytes(i, 1);
  }
  if (!oldest.empty() && std::stoull(oldest) > kFormat) {
    return WithHint(absl::FailedPreconditionError(ToAbsl(
        "it was written by rt " + writer + " in format " + format + "; rt " RT_VERSION
        " reads formats up to " + std::to_string(kFormat))),
        "start rt-head " + writer + " or newer");
  }
  const auto set = [&](std::string_view key, const std::string& value) {
    return database.Query("INSERT INTO rt_meta VALUES(convert_from($1, 'UTF8'), $2)"
                          " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                          {key, std::string_view(value)}).status();
  };
  RT_RETURN_IF_ERROR(set("format", std::to_string(kFormat)));
  RT_RETURN_IF_ERROR(set("oldest_reader", std::to_string(kOldestReader)));
  return set("writer", version);
}

// Of a line that must be there once.
absl::Status Expect(const absl::StatusOr<PostgresResult>& result, uint64_t epoch) {
  if (!result.ok()) return result.status();
  if (result->affected() == 1) return absl::OkStatus();
  return absl::AbortedError(ToAbsl("another head has taken the lead from epoch " +
                                   std::to_string(epoch)));
}

}  // namespace

absl::Status PreparePostgresTables(PostgresDatabase& database, const std::string& version) {
  const auto prepare = [&]() -> absl::Status {
    RT_RETURN_IF_ERROR(database.Query(kLock).status());
    RT_RETURN_IF_ERROR(database.Execute(kTables));
    return CheckHeader(database, version);
  };
  RT_RETURN_IF_ERROR(database.Execute("BEGIN"));
  absl::Status status = prepare();
  if (status.ok()) return database.Execute("COMMIT");
  database.Execute("ROLLBACK").IgnoreError();  // The first error is the one to tell.
  return status;
}

absl::StatusOr<PostgresLead> ReadPostgresLead(PostgresDatabase& database) {
  RT_ASSIGN_OR_RETURN(PostgresResult line, database.Query(
      "SELECT epoch, holder, address, CASE WHEN renewed_at = '-infinity' THEN 9000000000 ELSE"
      " greatest(0, extract(epoch FROM clock_timestamp() - renewed_at) * 1000)::bigint END"
      " FROM rt_lead"));
  if (line.size() != 1) return absl::DataLossError("the table rt_lead has no line");
  return PostgresLead{line.Number(0, 0), std::string(line.Bytes(0, 1)),
                      std::string(line.Bytes(0, 2)), static_cast<Millis>(line.Number(0, 3))};
}

absl::StatusOr<uint64_t> TakePostgresLead(PostgresDatabase& database, const std::string& holder,
                                          Millis stale_after) {
  RT_ASSIGN_OR_RETURN(PostgresResult taken, database.Query(
      "UPDATE rt_lead SET epoch = epoch + 1, holder = $1, renewed_at = clock_timestamp()"
      " WHERE holder = $1 OR renewed_at < clock_timestamp() - $2 * interval '1 millisecond'"
      " RETURNING epoch", {std::string_view(holder), static_cast<uint64_t>(stale_after)}));
  if (taken.size() == 1) return taken.Number(0, 0);
  RT_ASSIGN_OR_RETURN(PostgresLead lead, ReadPostgresLead(database));
  const std::string where = lead.address.empty() ? "" : " at " + lead.address;
  return absl::UnavailableError(ToAbsl("another head" + where + " holds the lead (epoch " +
                                       std::to_string(lead.epoch) + ")"));
}

absl::Status RenewPostgresLead(PostgresDatabase& database, uint64_t epoch) {
  return Expect(database.Query(
      "UPDATE rt_lead SET renewed_at = clock_timestamp() WHERE epoch = $1", {epoch}), epoch);
}

absl::Status SetPostgresAddress(PostgresDatabase& database, uint64_t epoch,
                                const std::string& address) {
  return Expect(database.Query("UPDATE rt_lead SET address = $2 WHERE epoch = $1",
                               {epoch, std::string_view(address)}), epoch);
}

absl::Status GiveUpPostgresLead(PostgresDatabase& database, uint64_t epoch) {
  return Expect(database.Query("UPDATE rt_lead SET renewed_at = '-infinity' WHERE epoch = $1",
                               {epoch}), epoch);
}

absl::StatusOr<std::optional<std::string>> ReadPostgresNote(PostgresDatabase& database,
                                                            const std::string& name) {
  RT_ASSIGN_OR_RETURN(PostgresResult found, database.Query(
      "SELECT value FROM rt_meta WHERE key = convert_from($1, 'UTF8')", {std::string_view(name)}));
  if (found.size() == 0) return std::optional<std::string>();
  return std::optional(std::string(found.Bytes(0, 0)));
}

absl::Status WritePostgresNote(PostgresDatabase& database, const std::string& name,
                               const std::string& text) {
  RT_ASSIGN_OR_RETURN(PostgresResult written, database.Query(
      "INSERT INTO rt_meta VALUES(convert_from($1, 'UTF8'), $2) ON CONFLICT DO NOTHING",
      {std::string_view(name), std::string_view(text)}));
  if (written.affected() == 1) return absl::OkStatus();
  return absl::AlreadyExistsError(ToAbsl("there is a note " + name));
}

}  // namespace rt
