#include "common/cas/tensors.h"

#include <algorithm>

#include "common/base/json.h"

namespace rt {
namespace {

constexpr Bytes kFileBytesMin = 256 << 10;  // Below, cuts win nothing.
constexpr Bytes kHeaderBytesMax = 16 << 20;
constexpr size_t kTensorsMax = 65'536;
constexpr Bytes kZipEndBytes = 22;          // Without its comment.
constexpr Bytes kZipCommentBytesMax = 65'535;
constexpr uint64_t kIn64 = 0xffffffff;      // "See the zip64 field."

uint64_t Integer(std::string_view bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  if (bytes.size() < size || offset > bytes.size() - size) return 0;
  for (size_t i = size; i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i - 1]);
  return value;
}

// Sizes of files fit; others become something that no file has.
Bytes AsBytes(uint64_t value) { return value > INT64_MAX / 4 ? -1 : static_cast<Bytes>(value); }

struct Directory {
  Bytes offset = -1;
  Bytes size = -1;
};

// Of a zip file, from the record at its end (APPNOTE.TXT 4.3.16, 4.3.14 for zip64).
Directory FindDirectory(const ReadAt& read, Bytes file_bytes) {
  Directory none;
  const Bytes tail_bytes = std::min(file_bytes, kZipEndBytes + kZipCommentBytesMax);
  std::string tail;
  if (tail_bytes < kZipEndBytes || !read(file_bytes - tail_bytes, tail_bytes, tail)) return none;
  const size_t at = tail.rfind("PK\5\6");
  if (at == std::string::npos || tail.size() - at < static_cast<size_t>(kZipEndBytes)) return none;
  Directory found{AsBytes(Integer(tail, at + 16, 4)), AsBytes(Integer(tail, at + 12, 4))};
  const bool is_64 = Integer(tail, at + 16, 4) == kIn64 || Integer(tail, at + 12, 4) == kIn64;
  if (!is_64) return found;
  std::string record;
  if (at < 20 || tail.compare(at - 20, 4, "PK\6\7") != 0) return none;
  const Bytes record_at = AsBytes(Integer(tail, at - 20 + 8, 8));
  if (record_at < 0 || !read(record_at, 56, record) || !record.starts_with("PK\6\6")) return none;
  return {AsBytes(Integer(record, 48, 8)), AsBytes(Integer(record, 40, 8))};
}

struct Entry {
  std::string_view name;
  uint64_t method = 0, size = 0, stored = 0, local_at = 0;
};

// Of the zip64 field among an entry's extra ones: what its 32 bits could not hold, in this order.
void Read64(std::string_view extra, Entry& entry) {
  while (extra.size() >= 4) {
    const size_t size = Integer(extra, 2, 2);
    if (size > extra.size() - 4) return;
    if (Integer(extra, 0, 2) == 1) {
      size_t at = 4;
      for (uint64_t* value : {&entry.size, &entry.stored, &entry.local_at}) {
        if (*value != kIn64) continue;
        if (at + 8 > 4 + size) return;
        *value = Integer(extra, at, 8);
        at += 8;
      }
    }
    extra.remove_prefix(4 + size);
  }
}

bool IsTensor(const Entry& entry) {
  return entry.method == 0 && entry.size == entry.stored && entry.size > 0 &&
         (entry.name.find("/data/") != std::string_view::npos || entry.name.ends_with(".npy"));
}

std::vector<ChunkSpan> ZipTensors(const ReadAt& read, Bytes file_bytes) {
  const Directory directory = FindDirectory(read, file_bytes);
  std::string text;
  if (directory.offset < 0 || directory.size < 0 || directory.size > kHeaderBytesMax ||
      !read(directory.offset, directory.size, text))
    return {};
  std::vector<ChunkSpan> tensors;
  std::string_view rest = text;
  while (rest.size() >= 46 && rest.starts_with("PK\1\2") && tensors.size() < kTensorsMax) {
    const size_t name = Integer(rest, 28, 2), extra = Integer(rest, 30, 2),
                 comment = Integer(rest, 32, 2);
    if (rest.size() - 46 < name + extra + comment) return {};
    Entry entry{rest.substr(46, name), Integer(rest, 10, 2), Integer(rest, 24, 4),
                Integer(rest, 20, 4), Integer(rest, 42, 4)};
    Read64(rest.substr(46 + name, extra), entry);
    rest.remove_prefix(46 + name + extra + comment);
    if (!IsTensor(entry)) continue;
    // The header before the data has extra fields of its own: torch aligns the data by them.
    std::string local;
    const Bytes local_at = AsBytes(entry.local_at);
    if (local_at < 0 || !read(local_at, 30, local) || !local.starts_with("PK\3\4")) return {};
    const auto before = static_cast<Bytes>(30 + Integer(local, 26, 2) + Integer(local, 28, 2));
    tensors.push_back({local_at + before, AsBytes(entry.size)});
  }
  return tensors;
}

// 8 bytes that say how long the JSON behind them is, then the data that its offsets are of.
std::vector<ChunkSpan> SafeTensors(const ReadAt& read, Bytes header_bytes) {
  std::string text;
  if (!read(8, header_bytes, text)) return {};
  auto header = Json::Parse(text);
  if (!header.ok() || !header->is_object()) return {};
  std::vector<ChunkSpan> tensors;
  for (const auto& [name, tensor] : header->object()) {
    const Json* offsets = tensor.Find("data_offsets");
    if (name == "__metadata__" || offsets == nullptr) continue;
    if (!offsets->is_array() || offsets->array().size() != 2 || !offsets->array()[0].is_int() ||
        !offsets->array()[1].is_int() || tensors.size() >= kTensorsMax)
      return {};
    const Bytes begin = offsets->array()[0].AsInt(), end = offsets->array()[1].AsInt();
    if (begin < 0 || end < begin || end > INT64_MAX / 4) return {};
    if (end > begin) tensors.push_back({8 + header_bytes + begin, end - begin});
  }
  return tensors;
}

void AddPieces(Bytes begin, Bytes end, Bytes chunk_bytes, std::vector<ChunkSpan>& spans) {
  for (Bytes at = begin; at < end; at += chunk_bytes)
    spans.push_back({at, std::min(chunk_bytes, end - at)});
}

}  // namespace

std::vector<ChunkSpan> FindTensors(const ReadAt& read, Bytes file_bytes) {
  std::string start;
  if (file_bytes < kFileBytesMin || !read(0, 9, start)) return {};
  std::vector<ChunkSpan> tensors;
  const Bytes header_bytes = AsBytes(Integer(start, 0, 8));
  if (start.starts_with("PK\3\4")) {
    tensors = ZipTensors(read, file_bytes);
  } else if (start[8] == '{' && header_bytes > 0 && header_bytes <= kHeaderBytesMax) {
    tensors = SafeTensors(read, header_bytes);
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const ChunkSpan& a, const ChunkSpan& b) { return a.offset < b.offset; });
  Bytes end = 0;
  for (const ChunkSpan& tensor : tensors) {
    if (tensor.size <= 0 || tensor.offset < end || tensor.size > file_bytes - tensor.offset)
      return {};
    end = tensor.offset + tensor.size;
  }
  return tensors;
}

Bytes SmallTensorBytes(Bytes file_bytes) {
  Bytes small = 64 << 10;
  while (small < Bytes{limits::kChunkBytes} && file_bytes / small > 2'048) small *= 2;
  return small;
}

std::vector<ChunkSpan> CutAtTensors(const std::vector<ChunkSpan>& tensors, Bytes file_bytes,
                                    Bytes chunk_bytes) {
  if (tensors.empty()) return ChunkSpans(file_bytes, chunk_bytes);
  const Bytes small = SmallTensorBytes(file_bytes);
  std::vector<ChunkSpan> spans;
  AddPieces(0, tensors.front().offset, chunk_bytes, spans);
  Bytes shared = tensors.front().offset;  // Where the chunk of small neighbours begins.
  for (const ChunkSpan& tensor : tensors) {
    const Bytes end = tensor.offset + tensor.size;
    const bool is_large = tensor.size >= small;
    if (is_large || end - shared > 4 * small) {
      AddPieces(shared, tensor.offset, chunk_bytes, spans);
      shared = tensor.offset;
    }
    if (!is_large) continue;
    AddPieces(shared, end, chunk_bytes, spans);
    shared = end;
  }
  const Bytes end = tensors.back().offset + tensors.back().size;
  AddPieces(shared, end, chunk_bytes, spans);
  AddPieces(end, file_bytes, chunk_bytes, spans);
  return spans;
}

}  // namespace rt
