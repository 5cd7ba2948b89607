#include "head/journal/sqlite_reads.h"

#include "common/base/status.h"
#include "head/journal/chain_reader.h"
#include "head/journal/codec.h"

namespace rt {

SqliteReads::Reader::~Reader() {
  if (database_ == nullptr) return;
  std::lock_guard lock(reads_->mutex_);
  reads_->idle_.push_back(std::move(database_));
}

absl::StatusOr<SqliteReads::Reader> SqliteReads::Lease() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Reader reader(*this, std::move(idle_.back()));
      idle_.pop_back();
      return reader;
    }
  }
  RT_ASSIGN_OR_RETURN(auto database, file_.OpenReader());
  return Reader(*this, std::move(database));
}

absl::Status SqliteReads::VisitEvents(SqliteDatabase& database, uint64_t after_seq, uint64_t limit,
                                      const Visit& visit) {
  RT_ASSIGN_OR_RETURN(SqliteStatement events, SqliteStatement::Prepare(
      database, "SELECT seq, body, hash FROM events WHERE seq>=? ORDER BY seq LIMIT ?"));
  // The record before gives the hash that the first one is chained to.
  events.Bind(1, after_seq).Bind(2, limit + (after_seq > 0 ? 1 : 0));
  ChainReader chain;
  while (true) {
    RT_ASSIGN_OR_RETURN(bool found, events.Step());
    if (!found) return absl::OkStatus();
    if (after_seq > 0 && chain.seq() == 0) {
      chain = ChainReader(events.Number(0), std::string(events.Bytes(2)));
      if (chain.seq() == after_seq) continue;
      return absl::DataLossError("record " + std::to_string(after_seq) + " is missing");
    }
    auto record = chain.Next(events.Number(0), events.Bytes(1), events.Bytes(2));
    if (absl::IsFailedPrecondition(record.status()))
      return Annotate(record.status(), file_.Describe());
    if (!record.ok()) return record.status();
    RT_RETURN_IF_ERROR(visit(*record));
  }
}

absl::Status SqliteReads::Read(uint64_t after_seq, uint64_t limit, const Visit& visit) {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  return VisitEvents(*reader, after_seq, limit, visit);
}

absl::StatusOr<Batch> SqliteReads::ReadBatch(uint64_t after_seq, size_t records_max) {
  Batch batch;
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_RETURN_IF_ERROR(VisitEvents(*reader, after_seq, records_max, [&](const Record& record) {
    batch.records.push_back(record);
    return absl::OkStatus();
  }));
  if (batch.records.empty()) return batch;
  RT_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(
      *reader, "SELECT event_seq, body, hash FROM rows WHERE event_seq>? AND event_seq<=?"
               " ORDER BY event_seq"));
  rows.Bind(1, after_seq).Bind(2, batch.records.back().seq);
  while (true) {
    RT_ASSIGN_OR_RETURN(bool found, rows.Step());
    if (!found) return batch;
    RT_ASSIGN_OR_RETURN(RowBatch decoded,
                        CheckedRows(rows.Number(0), rows.Bytes(1), rows.Bytes(2)));
    RT_RETURN_IF_ERROR(CheckAnnounced(batch.records[rows.Number(0) - after_seq - 1], decoded));
    batch.rows.push_back(std::move(decoded));
  }
}

absl::StatusOr<std::vector<StoredRows>> SqliteReads::ReadRows(const Owner& owner,
                                                              const RowPlace& after,
                                                              size_t bytes_max) {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_ASSIGN_OR_RETURN(SqliteStatement rows, SqliteStatement::Prepare(
      *reader, "SELECT r.event_seq, r.body, r.hash, e.body FROM rows r"
               " JOIN events e ON e.seq=r.event_seq WHERE r.kind=? AND r.grp=? AND r.number=?"
               " AND (r.attempt, r.generation, r.rank, r.event_seq) > (?, ?, ?, ?)"
               " ORDER BY r.attempt, r.generation, r.rank, r.event_seq"));
  rows.Bind(1, static_cast<uint64_t>(owner.kind)).Bind(2, owner.group);
  rows.Bind(3, uint64_t{owner.number});
  rows.Bind(4, uint64_t{after.attempt}).Bind(5, uint64_t{after.generation});
  rows.Bind(6, uint64_t{after.rank}).Bind(7, after.event_seq);
  std::vector<StoredRows> stored;
  for (size_t bytes = 0; bytes < bytes_max;) {
    RT_ASSIGN_OR_RETURN(bool found, rows.Step());
    if (!found) return stored;
    RT_ASSIGN_OR_RETURN(RowBatch decoded,
                        CheckedRows(rows.Number(0), rows.Bytes(1), rows.Bytes(2)));
    RT_ASSIGN_OR_RETURN(Record record, DecodeRecord(rows.Bytes(3)));
    RT_RETURN_IF_ERROR(CheckAnnounced(record, decoded));
    bytes += rows.Bytes(1).size();
    stored.push_back({rows.Number(0), std::move(decoded)});
  }
  return stored;
}

absl::StatusOr<std::string> SqliteReads::HashAt(uint64_t seq) {
  RT_ASSIGN_OR_RETURN(Reader reader, Lease());
  RT_ASSIGN_OR_RETURN(SqliteStatement hash, SqliteStatement::Prepare(
      *reader, "SELECT hash FROM events WHERE seq=?"));
  RT_ASSIGN_OR_RETURN(bool found, hash.Bind(1, seq).Step());
  if (!found) return absl::DataLossError("record " + std::to_string(seq) + " is missing");
  return std::string(hash.Bytes(0));
}

}  // namespace rt
