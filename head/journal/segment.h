// A stretch of the journal as one object of a shipped log: records and their rows, between the
// hashes of the chain before the first and after the last. Format: "rtseg1\n", CRC-32C of the rest
// (4 bytes, little-endian), then fields in protobuf's wire format, the records and rows packed with
// zstd (docs/journal.md). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "head/journal/journal.h"

namespace rt {

struct LogSegment {
  uint64_t epoch = 0;       // Of the head that wrote the last of the records.
  std::string writer;       // A name of the process: no two write the same bytes by chance.
  std::string hash_before;  // Of the chain, before the first record.
  Batch batch;
  std::vector<std::string> hashes;  // Of the chain, after each record; made by both ways below.

  uint64_t seq_from() const { return batch.records.front().seq; }
  uint64_t seq_to() const { return batch.records.back().seq; }
  const std::string& hash_after() const { return hashes.back(); }
};

// Fills `hashes`. The records must be dense.
std::string EncodeSegment(LogSegment& segment);
// DataLoss when the bytes are damaged or contradict themselves; FailedPrecondition, naming the
// type, for an event that this version does not know.
absl::StatusOr<LogSegment> DecodeSegment(std::string_view bytes);

// The records after `seq` and their rows.
Batch TailOf(Batch batch, uint64_t seq);

}  // namespace rt
