// The bytes of chunks as objects hold them: records, and packs of many records with an index at the
// end (docs/checkpoint-format.md). Pure; trusts nothing that it reads.
//   record   "RTCK" | codec 1 | hash kind 1 | 0 0 | stored bytes u32 | bytes u32 | hash 32 |
//            crc32c of the 48 bytes before u32 | payload
//   pack     "RTPACK1\n" | records | index | trailer
//   index    per record: hash 32 | codec 1 | hash kind 1 | 0 0 | offset u64 | stored bytes u32 |
//            bytes u32
//   trailer  index offset u64 | records u32 | crc32c of the index and these 12 bytes u32 |
//            "RTPKEND1"
// Integers are little-endian; offsets are of a record's header. A chunk of 1 MiB or more is an
// object of one bare record.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/cas/codec.h"

namespace rt {

inline constexpr Bytes kRecordHeaderBytes = 52;
inline constexpr Bytes kIndexEntryBytes = 52;
inline constexpr Bytes kPackTrailerBytes = 24;

// Where a chunk's record lies within a pack.
struct PackEntry {
  std::string digest;
  Codec codec = Codec::kRaw;
  Bytes offset = 0;
  Bytes stored_bytes = 0;  // Of the payload.
  Bytes bytes = 0;         // Of the chunk.
  Bytes record_bytes() const { return kRecordHeaderBytes + stored_bytes; }
  friend bool operator==(const PackEntry&, const PackEntry&) = default;
};

// Compresses where it pays.
std::string EncodeRecord(const std::string& digest, std::string_view bytes);
// The chunk in a record that must fill `record`; DataLoss when it is damaged, also when the bytes
// are not those of `digest`.
absl::StatusOr<std::string> DecodeRecord(const std::string& digest, std::string_view record);

// Gathers records; Finish gives the pack's bytes.
class PackBuilder {
 public:
  void Add(const std::string& digest, std::string_view bytes);
  void AddRecord(const PackEntry& entry, std::string_view record);  // As it lay in another pack.
  Bytes size() const { return static_cast<Bytes>(bytes_.size()); }
  const std::vector<PackEntry>& entries() const { return entries_; }
  std::string Finish();

 private:
  std::string bytes_ = "RTPACK1\n";
  std::vector<PackEntry> entries_;
};

// How many of the pack's last bytes the index needs, trailer included. `tail`: at least the
// trailer.
absl::StatusOr<Bytes> IndexBytes(std::string_view tail, Bytes pack_bytes);
// `tail`: the last IndexBytes of the pack.
absl::StatusOr<std::vector<PackEntry>> ParseIndex(std::string_view tail, Bytes pack_bytes);
// The index from the records alone, up to the first that is damaged: for a pack whose end is gone.
std::vector<PackEntry> ScanPack(std::string_view pack);

}  // namespace rt
