#include "common/cas/pack.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"

namespace rt {
namespace {

constexpr std::string_view kRecordMagic = "RTCK";
constexpr std::string_view kPackMagic = "RTPACK1\n";
constexpr std::string_view kTrailerMagic = "RTPKEND1";
constexpr Bytes kPackedChunkBytesMax = Bytes{limits::kChunkMessageBytesMax};

void PutInteger(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// Reads on; what is not there reads as 0 and makes it !ok().
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::string_view Take(size_t size) {
    if (bytes_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  uint64_t Integer(size_t size) {
    uint64_t value = 0;
    std::string_view taken = Take(size);
    for (size_t i = taken.size(); i > 0; --i)
      value = value << 8 | static_cast<unsigned char>(taken[i - 1]);
    return value;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

uint8_t KindByte(std::string_view digest) {
  return digest.starts_with(HashName(HashKind::kSha256)) ? 1 : 0;
}

std::string DigestOf(uint64_t kind, std::string_view hash) {
  return std::string(HashName(kind == 1 ? HashKind::kSha256 : HashKind::kBlake3)) + ":" +
         ToHex(hash);
}

std::string HashOf(std::string_view digest) {
  auto hash = FromHex(DigestHex(digest));
  RT_CHECK(hash.has_value() && hash->size() == 32);
  return *hash;
}

bool IsPlausible(const PackEntry& entry, uint64_t codec, uint64_t kind) {
  return codec <= 1 && kind <= 1 && entry.bytes <= kPackedChunkBytesMax &&
         entry.stored_bytes <= kPackedChunkBytesMax &&
         (entry.codec == Codec::kZstd || entry.bytes == entry.stored_bytes);
}

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(ToAbsl("damaged: " + std::string(what)));
}

// Of the 52 bytes of a header; the offset stays 0.
absl::StatusOr<PackEntry> ParseHeader(std::string_view header) {
  Reader reader(header);
  PackEntry entry;
  const std::string_view magic = reader.Take(kRecordMagic.size());
  const uint64_t codec = reader.Integer(1), kind = reader.Integer(1), zero = reader.Integer(2);
  entry.stored_bytes = static_cast<Bytes>(reader.Integer(4));
  entry.bytes = static_cast<Bytes>(reader.Integer(4));
  const std::string_view hash = reader.Take(32);
  const uint64_t crc = reader.Integer(4);
  if (!reader.ok() || magic != kRecordMagic || zero != 0) return Damaged("no record");
  if (crc != Crc32c(header.substr(0, 48))) return Damaged("the header of a record");
  entry.codec = static_cast<Codec>(codec);
  entry.digest = DigestOf(kind, hash);
  if (!IsPlausible(entry, codec, kind)) return Damaged("a record of an unknown kind");
  return entry;
}

std::string Header(const PackEntry& entry) {
  std::string header(kRecordMagic);
  header += static_cast<char>(entry.codec);
  header += static_cast<char>(KindByte(entry.digest));
  PutInteger(header, 0, 2);
  PutInteger(header, static_cast<uint64_t>(entry.stored_bytes), 4);
  PutInteger(header, static_cast<uint64_t>(entry.bytes), 4);
  header += HashOf(entry.digest);
  PutInteger(header, Crc32c(header), 4);
  return header;
}

}  // namespace

std::string EncodeRecord(const std::string& digest, std::string_view bytes) {
  auto compressed = CompressIfItPays(bytes);
  const std::string_view payload = compressed.has_value() ? std::string_view(*compressed) : bytes;
  std::string record = Header({.digest = digest,
                               .codec = compressed.has_value() ? Codec::kZstd : Codec::kRaw,
                               .stored_bytes = static_cast<Bytes>(payload.size()),
                               .bytes = static_cast<Bytes>(bytes.size())});
  record.append(payload);
  return record;
}

absl::StatusOr<std::string> DecodeRecord(const std::string& digest, std::string_view record) {
  if (static_cast<Bytes>(record.size()) < kRecordHeaderBytes) return Damaged("a record cut short");
  RT_ASSIGN_OR_RETURN(PackEntry entry, ParseHeader(record.substr(0, kRecordHeaderBytes)));
  if (static_cast<Bytes>(record.size()) != entry.record_bytes())
    return Damaged("a record of another length");
  if (entry.digest != digest) return Damaged("the record of another chunk");
  const std::string_view payload = record.substr(kRecordHeaderBytes);
  std::string bytes;
  if (entry.codec == Codec::kZstd) {
    RT_ASSIGN_OR_RETURN(bytes, Decompress(payload, static_cast<size_t>(entry.bytes)));
  } else {
    bytes = std::string(payload);
  }
  RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
  return bytes;
}

void PackBuilder::Add(const std::string& digest, std::string_view bytes) {
  const std::string record = EncodeRecord(digest, bytes);
  AddRecord(*ParseHeader(std::string_view(record).substr(0, kRecordHeaderBytes)), record);
}

void PackBuilder::AddRecord(const PackEntry& entry, std::string_view record) {
  RT_CHECK(static_cast<Bytes>(record.size()) == entry.record_bytes());
  entries_.push_back(entry);
  entries_.back().offset = size();
  bytes_.append(record);
}

std::string PackBuilder::Finish() {
  const Bytes index_offset = size();
  std::string index;
  for (const PackEntry& entry : entries_) {
    index += HashOf(entry.digest);
    index += static_cast<char>(entry.codec);
    index += static_cast<char>(KindByte(entry.digest));
    PutInteger(index, 0, 2);
    PutInteger(index, static_cast<uint64_t>(entry.offset), 8);
    PutInteger(index, static_cast<uint64_t>(entry.stored_bytes), 4);
    PutInteger(index, static_cast<uint64_t>(entry.bytes), 4);
  }
  PutInteger(index, static_cast<uint64_t>(index_offset), 8);
  PutInteger(index, entries_.size(), 4);
  PutInteger(index, Crc32c(index), 4);
  return std::move(bytes_) + index + std::string(kTrailerMagic);
}

absl::StatusOr<Bytes> IndexBytes(std::string_view tail, Bytes pack_bytes) {
  if (static_cast<Bytes>(tail.size()) < kPackTrailerBytes) return Damaged("a pack cut short");
  Reader reader(tail.substr(tail.size() - kPackTrailerBytes));
  const auto offset = static_cast<Bytes>(reader.Integer(8));
  const auto count = static_cast<Bytes>(reader.Integer(4));
  reader.Integer(4);
  if (reader.Take(kTrailerMagic.size()) != kTrailerMagic) return Damaged("a pack without its end");
  const Bytes needed = count * kIndexEntryBytes + kPackTrailerBytes;
  if (offset < static_cast<Bytes>(kPackMagic.size()) || offset != pack_bytes - needed)
    return Damaged("the end of a pack");
  return needed;
}

absl::StatusOr<std::vector<PackEntry>> ParseIndex(std::string_view tail, Bytes pack_bytes) {
  RT_ASSIGN_OR_RETURN(Bytes needed, IndexBytes(tail, pack_bytes));
  if (static_cast<Bytes>(tail.size()) != needed) return Damaged("an index of another length");
  Reader crc(tail.substr(tail.size() - 12));
  if (crc.Integer(4) != Crc32c(tail.substr(0, tail.size() - 12)))
    return Damaged("the index of a pack");
  Reader reader(tail);
  std::vector<PackEntry> entries;
  for (Bytes at = needed - kPackTrailerBytes; at > 0; at -= kIndexEntryBytes) {
    PackEntry entry;
    const std::string_view hash = reader.Take(32);
    const uint64_t codec = reader.Integer(1), kind = reader.Integer(1);
    reader.Integer(2);
    entry.codec = static_cast<Codec>(codec);
    entry.digest = DigestOf(kind, hash);
    entry.offset = static_cast<Bytes>(reader.Integer(8));
    entry.stored_bytes = static_cast<Bytes>(reader.Integer(4));
    entry.bytes = static_cast<Bytes>(reader.Integer(4));
    if (!IsPlausible(entry, codec, kind) || entry.offset < static_cast<Bytes>(kPackMagic.size()) ||
        entry.offset > pack_bytes - needed - entry.record_bytes())
      return Damaged("an entry of a pack's index");
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<PackEntry> ScanPack(std::string_view pack) {
  std::vector<PackEntry> entries;
  if (!pack.starts_with(kPackMagic)) return entries;
  size_t at = kPackMagic.size();
  while (pack.size() - at >= static_cast<size_t>(kRecordHeaderBytes)) {
    auto entry = ParseHeader(pack.substr(at, kRecordHeaderBytes));
    if (!entry.ok() || static_cast<Bytes>(pack.size() - at) < entry->record_bytes()) break;
    entry->offset = static_cast<Bytes>(at);
    at += static_cast<size_t>(entry->record_bytes());
    entries.push_back(std::move(*entry));
  }
  return entries;
}

}  // namespace rt
