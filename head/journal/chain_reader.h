// Reads stored records in order and believes none that does not fit the chain, nor rows other than
// those that a record announced. What every journal that keeps bytes checks on the way.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "head/journal/chain.h"
#include "head/journal/journal.h"

namespace rt {

class ChainReader {
 public:
  ChainReader() = default;  // From the first record on.
  // After a record whose hash is known.
  ChainReader(uint64_t seq, std::string hash) : seq_(seq), hash_(std::move(hash)) {}

  // The next record, as it is stored. DataLoss when it is not the next, altered, or has another
  // number inside; FailedPrecondition when its type is unknown.
  absl::StatusOr<Record> Next(uint64_t seq, std::string_view body, std::string_view hash);

  uint64_t seq() const { return seq_; }  // Of the last record that was read.
  const std::string& hash() const { return hash_; }

 private:
  uint64_t seq_ = 0;
  std::string hash_ = ChainStart();
};

// The rows in stored bytes, if their own hash says that they are whole.
absl::StatusOr<RowBatch> CheckedRows(uint64_t event_seq, std::string_view body,
                                     std::string_view hash);
// DataLoss unless the record announced exactly these rows: the chain covers their digest.
absl::Status CheckAnnounced(const Record& record, const RowBatch& rows);

}  // namespace rt
