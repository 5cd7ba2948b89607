#include "head/journal/chain_reader.h"

#include "common/base/status.h"
#include "head/core/rows_digest.h"
#include "head/journal/codec.h"

namespace rt {
namespace {

absl::Status Damaged(uint64_t event_seq) {
  return absl::DataLossError("rows of record " + std::to_string(event_seq) + ": damaged");
}

}  // namespace

absl::StatusOr<Record> ChainReader::Next(uint64_t seq, std::string_view body,
                                         std::string_view hash) {
  const std::string at = "record " + std::to_string(seq_ + 1);
  if (seq != seq_ + 1) return absl::DataLossError(at + " is missing");
  std::string expected = Chain(hash_, body);
  if (expected != hash) return absl::DataLossError(at + ": the hash chain is broken");
  RT_ASSIGN_OR_RETURN(Record record, DecodeRecord(body));
  if (record.seq != seq) return absl::DataLossError(at + " carries another number");
  seq_ = seq;
  hash_ = std::move(expected);
  return record;
}

absl::StatusOr<RowBatch> CheckedRows(uint64_t event_seq, std::string_view body,
                                     std::string_view hash) {
  if (RowsHash(event_seq, body) == hash) return DecodeRows(body);
  return Damaged(event_seq);
}

absl::Status CheckAnnounced(const Record& record, const RowBatch& rows) {
  const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
  const bool fits = reports != nullptr && reports->attempt == rows.attempt &&
                    reports->rank == rows.rank && reports->count == rows.rows.size() &&
                    reports->rows_digest == RowsDigest(rows.rows);
  return fits ? absl::OkStatus() : Damaged(record.seq);
}

}  // namespace rt
