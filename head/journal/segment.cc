#include "head/journal/segment.h"

#include <zstd.h>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/wire/wire.h"
#include "head/journal/chain_reader.h"
#include "head/journal/codec.h"
#include "head/journal/row_owners.h"

namespace rt {
namespace {

using codec::WireReader;
using codec::WireType;
using codec::WireWriter;

constexpr std::string_view kMagic = "rtseg1\n";
constexpr size_t kHeaderBytes = kMagic.size() + 4;
constexpr int kZstdLevel = 3;
// Unpacked; far above what is ever written, far below what would exhaust a machine.
constexpr uint64_t kContentBytesMax = uint64_t{1} << 30;

enum Field : uint32_t { kEpoch = 1, kWriter, kHashBefore, kHashAfter, kSize, kPacked, kSeqFrom };
enum Content : uint32_t { kRecord = 1, kRows };

absl::Status Damaged(const char* what) {
  return absl::DataLossError(std::string("a segment of the shipped log: ") + what);
}

std::string Pack(std::string_view content) {
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(),
                                    kZstdLevel);
  RT_CHECK(!ZSTD_isError(size));
  packed.resize(size);
  return packed;
}

absl::StatusOr<std::string> Unpack(std::string_view packed, uint64_t size) {
  if (size > kContentBytesMax) return Damaged("its size is absurd");
  std::string content(size, '\0');
  const size_t unpacked = ZSTD_decompress(content.data(), size, packed.data(), packed.size());
  if (ZSTD_isError(unpacked) || unpacked != size) return Damaged("its content does not unpack");
  return content;
}

struct Frame {
  LogSegment segment;
  std::string_view packed, hash_after;
  uint64_t size = 0, seq_from = 0;
};

absl::StatusOr<Frame> ReadFrame(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) return Damaged("no segment");
  uint32_t crc = 0;
  for (size_t i = 0; i < 4; ++i)
    crc |= uint32_t{static_cast<unsigned char>(bytes[kMagic.size() + i])} << (8 * i);
  if (Crc32c(bytes.substr(kHeaderBytes)) != crc) return Damaged("its checksum does not fit");
  Frame frame;
  WireReader in(bytes.substr(kHeaderBytes));
  while (uint32_t number = in.NextField()) {
    switch (number) {
      case kEpoch: frame.segment.epoch = in.TakeVarint(); break;
      case kWriter: frame.segment.writer = in.TakeBytes(); break;
      case kHashBefore: frame.segment.hash_before = in.TakeBytes(); break;
      case kHashAfter: frame.hash_after = in.TakeBytes(); break;
      case kSize: frame.size = in.TakeVarint(); break;
      case kPacked: frame.packed = in.TakeBytes(); break;
      case kSeqFrom: frame.seq_from = in.TakeVarint(); break;
      default: in.Skip();
    }
  }
  if (in.failed() || frame.seq_from == 0) return Damaged("its fields are malformed");
  return frame;
}

}  // namespace

std::string EncodeSegment(LogSegment& segment) {
  RT_CHECK_BECAUSE(!segment.batch.records.empty(), "a segment without records");
  RowOwners(segment.batch);  // Rows without an event would be dropped by whoever reads.
  WireWriter content;
  segment.hashes.clear();
  std::string hash = segment.hash_before;
  uint64_t seq = segment.seq_from();
  for (const Record& record : segment.batch.records) {
    RT_CHECK_BECAUSE(record.seq == seq++, "records leave a gap");
    const std::string body = EncodeRecord(record);
    hash = Chain(hash, body);
    segment.hashes.push_back(hash);
    content.Tag(kRecord, WireType::kBytes);
    content.Bytes(body);
  }
  for (const RowBatch& rows : segment.batch.rows) {
    content.Tag(kRows, WireType::kBytes);
    content.Bytes(EncodeRows(rows));
  }
  const size_t size = content.size();
  WireWriter out;
  const auto number = [&](uint32_t field, uint64_t value) {
    out.Tag(field, WireType::kVarint);
    out.Varint(value);
  };
  const auto text = [&](uint32_t field, std::string_view value) {
    out.Tag(field, WireType::kBytes);
    out.Bytes(value);
  };
  number(kEpoch, segment.epoch);
  text(kWriter, segment.writer);
  number(kSeqFrom, segment.seq_from());
  text(kHashBefore, segment.hash_before);
  text(kHashAfter, segment.hash_after());
  number(kSize, size);
  text(kPacked, Pack(content.Take()));
  const std::string body = out.Take();
  std::string bytes(kMagic);
  const uint32_t crc = Crc32c(body);
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(crc >> shift);
  return bytes + body;
}

absl::StatusOr<LogSegment> DecodeSegment(std::string_view bytes) {
  RT_ASSIGN_OR_RETURN(Frame frame, ReadFrame(bytes));
  LogSegment segment = std::move(frame.segment);
  RT_ASSIGN_OR_RETURN(std::string content, Unpack(frame.packed, frame.size));
  ChainReader chain(frame.seq_from - 1, segment.hash_before);
  std::vector<uint64_t> owners;  // Places in `records`.
  WireReader in(content);
  while (uint32_t number = in.NextField()) {
    if (number == kRecord) {
      const std::string_view body = in.TakeBytes();
      segment.hashes.push_back(Chain(chain.hash(), body));
      RT_ASSIGN_OR_RETURN(Record record,
                          chain.Next(chain.seq() + 1, body, segment.hashes.back()));
      const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
      if (reports != nullptr && reports->count > 0) owners.push_back(segment.batch.records.size());
      segment.batch.records.push_back(std::move(record));
    } else if (number == kRows) {
      RT_ASSIGN_OR_RETURN(RowBatch rows, DecodeRows(in.TakeBytes()));
      if (segment.batch.rows.size() == owners.size()) return Damaged("rows that nobody announced");
      const size_t owner = owners[segment.batch.rows.size()];
      RT_RETURN_IF_ERROR(CheckAnnounced(segment.batch.records[owner], rows));
      segment.batch.rows.push_back(std::move(rows));
    } else {
      in.Skip();
    }
  }
  if (in.failed() || segment.batch.records.empty()) return Damaged("its content is malformed");
  if (segment.batch.rows.size() != owners.size()) return Damaged("rows are missing");
  if (chain.hash() != frame.hash_after) return Damaged("the hash chain is broken");
  return segment;
}

Batch TailOf(Batch batch, uint64_t seq) {
  Batch tail;
  size_t row = 0;
  for (Record& record : batch.records) {
    const auto* reports = std::get_if<event::ReportsAccepted>(&record.event);
    const bool has_rows = reports != nullptr && reports->count > 0;
    const bool is_kept = record.seq > seq;
    if (has_rows && is_kept) tail.rows.push_back(std::move(batch.rows[row]));
    if (has_rows) ++row;
    if (is_kept) tail.records.push_back(std::move(record));
  }
  return tail;
}

}  // namespace rt
