// A manifest: what a directory tree is made of, as canonical JSON (entries sorted by path, one
// spelling per tree), so that equal trees have equal digests. Pure.
//   {"format":"rt-manifest-1","chunk_bytes":4194304,"entries":[
//     {"path":"empty","dir":true},
//     {"path":"model/a.bin","mode":420,"size":5,"chunks":["b3:…"]},
//     {"path":"latest","link":"model/a.bin"}]}
// A file that is cut elsewhere than every chunk_bytes has "cuts" behind "chunks": the bytes of each
// chunk, none above chunk_bytes.
// ParseManifest trusts nobody: a path is relative, without "", ".", "..", NUL, a component beyond
// 255 bytes or 4 096 bytes in all; no path occurs twice or lies below a file or link; a link stays
// inside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "common/base/time.h"
#include "common/cas/chunker.h"

namespace rt {

struct ManifestEntry {
  enum class Kind { kFile, kLink, kDirectory };  // Directories are listed only when empty.
  std::string path;                              // Relative, '/' between components.
  Kind kind = Kind::kFile;
  uint32_t mode = 0644;             // Of a file: permission bits, without group or world write.
  Bytes size = 0;                   // Of a file.
  std::vector<std::string> chunks;  // Of a file, in order.
  std::vector<Bytes> cuts;          // The sizes of the chunks; empty for fixed cuts.
  std::string target;               // Of a link.
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};
struct Manifest {
  Bytes chunk_bytes = Bytes{limits::kChunkBytes};
  std::vector<ManifestEntry> entries;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Sorts, checks, and writes.
absl::StatusOr<std::string> FormatManifest(Manifest manifest);
// Refuses what is not canonical. Errors name the entry.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);
// Where the chunks of a file's entry lie in it.
std::vector<ChunkSpan> SpansOf(const ManifestEntry& entry, Bytes chunk_bytes);
// Every chunk that it names, once, in order.
std::vector<std::string> ChunksOf(const Manifest& manifest);

absl::Status CheckRelativePath(std::string_view path);
// Whether a link at `path` with this text ends inside the tree: relative, ".." only at its start.
absl::Status CheckLinkTarget(std::string_view path, std::string_view target);

}  // namespace rt
