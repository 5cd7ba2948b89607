#include "head/journal/postgres_reads.h"

#include "common/base/log.h"
#include "common/base/status.h"
#include "head/journal/chain_reader.h"
#include "head/journal/codec.h"
#include "head/journal/snapshot_bytes.h"

namespace rt {
namespace {

// Records of one answer: some megabytes.
constexpr uint64_t kPiece = 5'000;
constexpr uint64_t kBatchesPerQuestion = 16;  // Of rows: each may have kReportBytesMax.

}  // namespace

PostgresReads::Reader::~Reader() {
  if (database_ == nullptr) return;
  std::lock_guard lock(reads_->mutex_);
  reads_->idle_.push_back(std::move(database_));
}

absl::StatusOr<PostgresReads::Reader> PostgresReads::Lease() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Reader reader(*this, std::move(idle_.back()));
      idle_.pop_back();
      return reader;
    }
  }
  RT_ASSIGN_OR_RETURN(auto database, PostgresDatabase::Connect(url_));
  return Reader(*this, std::move(database));
}

absl::StatusOr<PostgresResult> PostgresReads::Ask(
    const char* sql, const std::vector<PostgresDatabase::Value>& values) {
  for (bool again = true;; again = false) {
    RT_ASSIGN_OR_RETURN(Reader reader, Lease());
    absl::StatusOr<PostgresResult> result = reader->Query(sql, values);
    if (!absl::IsUnavailable(result.status())) return result;
    reader.Drop();
    std::lock_guard lock(mutex_);
    idle_.clear();
    if (!again) return result;
  }
}

absl::StatusOr<bool> PostgresReads::VisitSome(uint64_t& after_seq, uint64_t limit,
                                              const Visit& visit) {
  // The record before gives the hash that the first one is chained to.
  const uint64_t wanted = limit + (after_seq > 0 ? 1 : 0);
  RT_ASSIGN_OR_RETURN(PostgresResult events, Ask(
      "SELECT seq, body, hash FROM rt_events WHERE seq >= $1 ORDER BY seq LIMIT $2",
      {after_seq, wanted}));
  ChainReader chain;
  int first = 0;
  if (after_seq > 0) {
    if (events.size() == 0 || events.Number(0, 0) != after_seq)
      return absl::DataLossError(ToAbsl("record " + std::to_string(after_seq) + " is missing"));
    chain = ChainReader(after_seq, std::string(events.Bytes(0, 2)));
    first = 1;
  }
  for (int i = first; i < events.size(); ++i) {
    RT_ASSIGN_OR_RETURN(Record record, chain.Next(events.Number(i, 0), events.Bytes(i, 1),
                                                  events.Bytes(i, 2)));
    RT_RETURN_IF_ERROR(visit(record));
    after_seq = record.seq;
  }
  return static_cast<uint64_t>(events.size()) < wanted;
}

absl::Status PostgresReads::Read(uint64_t after_seq, const Visit& visit) {
  for (bool is_end = false; !is_end;) {
    RT_ASSIGN_OR_RETURN(is_end, VisitSome(after_seq, kPiece, visit));
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> PostgresReads::ReadBatch(uint64_t after_seq, size_t records_max) {
  Batch batch;
  uint64_t seq = after_seq;
  RT_RETURN_IF_ERROR(VisitSome(seq, records_max, [&](const Record& record) {
    batch.records.push_back(record);
    return absl::OkStatus();
  }).status());
  if (batch.records.empty()) return batch;
  RT_ASSIGN_OR_RETURN(PostgresResult rows, Ask(
      "SELECT event_seq, body, hash FROM rt_rows WHERE event_seq > $1 AND event_seq <= $2"
      " ORDER BY event_seq", {after_seq, batch.records.back().seq}));
  for (int i = 0; i < rows.size(); ++i) {
    RT_ASSIGN_OR_RETURN(RowBatch decoded,
                        CheckedRows(rows.Number(i, 0), rows.Bytes(i, 1), rows.Bytes(i, 2)));
    RT_RETURN_IF_ERROR(CheckAnnounced(batch.records[rows.Number(i, 0) - after_seq - 1], decoded));
    batch.rows.push_back(std::move(decoded));
  }
  return batch;
}

absl::StatusOr<std::vector<StoredRows>> PostgresReads::ReadRows(const Owner& owner,
                                                                const RowPlace& after,
                                                                size_t bytes_max) {
  std::vector<StoredRows> stored;
  RowPlace place = after;
  for (size_t bytes = 0; bytes < bytes_max;) {
    RT_ASSIGN_OR_RETURN(PostgresResult rows, Ask(
        "SELECT r.event_seq, r.body, r.hash, e.body FROM rt_rows r JOIN rt_events e"
        " ON e.seq = r.event_seq WHERE r.kind = $1 AND r.grp = $2 AND r.number = $3"
        " AND (r.attempt, r.generation, r.rank, r.event_seq) > ($4, $5, $6, $7)"
        " ORDER BY r.attempt, r.generation, r.rank, r.event_seq LIMIT $8",
        {static_cast<uint64_t>(owner.kind), owner.group, uint64_t{owner.number},
         uint64_t{place.attempt}, uint64_t{place.generation}, uint64_t{place.rank},
         place.event_seq, kBatchesPerQuestion}));
    for (int i = 0; i < rows.size() && bytes < bytes_max; ++i) {
      RT_ASSIGN_OR_RETURN(RowBatch decoded,
                          CheckedRows(rows.Number(i, 0), rows.Bytes(i, 1), rows.Bytes(i, 2)));
      RT_ASSIGN_OR_RETURN(Record record, DecodeRecord(rows.Bytes(i, 3)));
      RT_RETURN_IF_ERROR(CheckAnnounced(record, decoded));
      bytes += rows.Bytes(i, 1).size();
      stored.push_back({rows.Number(i, 0), std::move(decoded)});
      place = PlaceOf(stored.back());
    }
    if (static_cast<uint64_t>(rows.size()) < kBatchesPerQuestion) return stored;
  }
  return stored;
}

absl::StatusOr<std::string> PostgresReads::HashAt(uint64_t seq) {
  RT_ASSIGN_OR_RETURN(PostgresResult hash, Ask("SELECT hash FROM rt_events WHERE seq = $1", {seq}));
  if (hash.size() == 0)
    return absl::DataLossError(ToAbsl("record " + std::to_string(seq) + " is missing"));
  return std::string(hash.Bytes(0, 0));
}

absl::StatusOr<std::optional<Snapshot>> PostgresReads::LatestSnapshot(uint64_t seq_max) {
  RT_ASSIGN_OR_RETURN(PostgresResult found, Ask(
      "SELECT seq, bytes FROM rt_snapshots WHERE seq <= $1 ORDER BY seq DESC",
      {std::min<uint64_t>(seq_max, INT64_MAX)}));
  for (int i = 0; i < found.size(); ++i) {
    const uint64_t seq = found.Number(i, 0);
    absl::StatusOr<std::string> state = HashAt(seq);
    if (state.ok()) state = OpenSnapshot(seq, std::string(found.Bytes(i, 1)), *state);
    if (state.ok()) return Snapshot{seq, *std::move(state)};
    RT_LOG(kWarning) << "journal: snapshot " << seq << " is passed over: "
                     << MessageOf(state.status());
  }
  return std::nullopt;
}

absl::Status PostgresReads::WriteSnapshot(const Snapshot& snapshot) {
  RT_ASSIGN_OR_RETURN(std::string hash, HashAt(snapshot.seq));
  const std::string bytes = SealSnapshot(snapshot, hash);
  RT_RETURN_IF_ERROR(Ask("INSERT INTO rt_snapshots VALUES($1, $2)"
                         " ON CONFLICT (seq) DO UPDATE SET bytes = excluded.bytes",
                         {snapshot.seq, std::string_view(bytes)}).status());
  return Ask("DELETE FROM rt_snapshots WHERE seq NOT IN"
             " (SELECT seq FROM rt_snapshots ORDER BY seq DESC LIMIT $1)",
             {uint64_t{kSnapshotsKept}}).status();
}

}  // namespace rt
