#include "common/cas/manifest.h"

#include <algorithm>
#include <set>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/chunker.h"
#include "common/cas/digest.h"

namespace rt {
namespace {

constexpr char kFormat[] = "rt-manifest-1";
constexpr size_t kComponentBytesMax = 255;
constexpr size_t kTextBytesMax = 64u << 20;
constexpr uint32_t kModeAllowed = 0755;
constexpr Bytes kManifestChunkBytesMax = Bytes{limits::kChunkMessageBytesMax};

std::string Quoted(std::string_view path) {
  return "'" + EscapeControl(path.substr(0, 200)) + "'";
}

absl::Status CheckCuts(const ManifestEntry& entry, Bytes chunk_bytes) {
  if (entry.cuts.empty()) return absl::OkStatus();
  Bytes left = entry.size;
  bool fixed = true;  // Fixed cuts have one spelling: none.
  for (Bytes cut : entry.cuts) {
    if (cut <= 0 || cut > chunk_bytes || cut > left) return Invalid("a cut beyond its bounds");
    fixed = fixed && cut == std::min(left, chunk_bytes);
    left -= cut;
  }
  if (left != 0) return Invalid("cuts that do not make up its size");
  return fixed ? Invalid("cuts that are the fixed ones") : absl::OkStatus();
}

absl::Status CheckFile(const ManifestEntry& entry, Bytes chunk_bytes) {
  if ((entry.mode & ~kModeAllowed) != 0)
    return Invalid("a mode beyond 0755: " + std::to_string(entry.mode));
  if (entry.size < 0) return Invalid("a negative size");
  RT_RETURN_IF_ERROR(CheckCuts(entry, chunk_bytes));
  Bytes wanted = entry.size / chunk_bytes + (entry.size % chunk_bytes != 0 ? 1 : 0);
  if (!entry.cuts.empty()) wanted = static_cast<Bytes>(entry.cuts.size());
  if (static_cast<Bytes>(entry.chunks.size()) != wanted)
    return Invalid(std::to_string(entry.size) + " bytes in " +
                   std::to_string(entry.chunks.size()) + " chunks");
  for (const std::string& chunk : entry.chunks)
    if (!IsDigest(chunk)) return Invalid("a chunk without a digest");
  return absl::OkStatus();
}

absl::Status CheckEntry(const ManifestEntry& entry, Bytes chunk_bytes) {
  RT_RETURN_IF_ERROR(CheckRelativePath(entry.path));
  switch (entry.kind) {
    case ManifestEntry::Kind::kFile: return CheckFile(entry, chunk_bytes);
    case ManifestEntry::Kind::kLink: return CheckLinkTarget(entry.path, entry.target);
    case ManifestEntry::Kind::kDirectory: return absl::OkStatus();
  }
  return Invalid("an entry of no kind");
}

// Entries are sorted. A path below another entry would need that one to be a directory with
// content.
absl::Status CheckManifest(const Manifest& manifest) {
  if (manifest.chunk_bytes <= 0 || manifest.chunk_bytes > kManifestChunkBytesMax)
    return Invalid("manifest: chunk_bytes " + std::to_string(manifest.chunk_bytes));
  std::set<std::string, std::less<>> paths;
  for (const ManifestEntry& entry : manifest.entries) {
    if (absl::Status status = CheckEntry(entry, manifest.chunk_bytes); !status.ok())
      return Annotate(status, "manifest, entry " + Quoted(entry.path));
    if (!paths.insert(entry.path).second)
      return Invalid("manifest: " + Quoted(entry.path) + " occurs twice");
  }
  for (const std::string& path : paths) {
    std::string_view parent = path;
    for (size_t slash = parent.rfind('/'); slash != std::string_view::npos;
         slash = parent.rfind('/')) {
      parent = parent.substr(0, slash);
      if (paths.contains(parent))
        return Invalid("manifest: " + Quoted(path) + " lies below the entry " + Quoted(parent));
    }
  }
  return absl::OkStatus();
}

Json ToJson(const ManifestEntry& entry) {
  Json json = Json::MakeObject({{"path", entry.path}});
  if (entry.kind == ManifestEntry::Kind::kDirectory) json.Set("dir", true);
  if (entry.kind == ManifestEntry::Kind::kLink) json.Set("link", entry.target);
  if (entry.kind != ManifestEntry::Kind::kFile) return json;
  json.Set("mode", entry.mode);
  json.Set("size", entry.size);
  Json::Array chunks(entry.chunks.begin(), entry.chunks.end());
  json.Set("chunks", Json(std::move(chunks)));
  if (entry.cuts.empty()) return json;
  Json::Array cuts(entry.cuts.begin(), entry.cuts.end());
  json.Set("cuts", Json(std::move(cuts)));
  return json;
}

std::string Write(const Manifest& manifest) {
  Json::Array entries;
  entries.reserve(manifest.entries.size());
  for (const ManifestEntry& entry : manifest.entries) entries.push_back(ToJson(entry));
  return Json::MakeObject({{"format", kFormat},
                           {"chunk_bytes", manifest.chunk_bytes},
                           {"entries", Json(std::move(entries))}})
      .Dump();
}

// Lenient about shape: whatever is odd does not write back to the same text, and is refused there.
ManifestEntry FromJson(const Json& json) {
  ManifestEntry entry{.path = json.GetString("path")};
  if (json.Find("dir") != nullptr) {
    entry.kind = ManifestEntry::Kind::kDirectory;
  } else if (json.Find("link") != nullptr) {
    entry.kind = ManifestEntry::Kind::kLink;
    entry.target = json.GetString("link");
  } else {
    entry.mode = static_cast<uint32_t>(json.GetInt("mode"));
    entry.size = json.GetInt("size");
    const Json* chunks = json.Find("chunks");
    if (chunks == nullptr || !chunks->is_array()) return entry;
    for (const Json& chunk : chunks->array())
      entry.chunks.push_back(chunk.is_string() ? chunk.AsString() : "");
    const Json* cuts = json.Find("cuts");
    if (cuts == nullptr || !cuts->is_array()) return entry;
    for (const Json& cut : cuts->array()) entry.cuts.push_back(cut.is_int() ? cut.AsInt() : -1);
  }
  return entry;
}

}  // namespace

absl::Status CheckRelativePath(std::string_view path) {
  if (path.empty() || path.size() > limits::kPathBytesMax)
    return Invalid("a path of " + std::to_string(path.size()) + " bytes");
  if (!IsValidUtf8(path)) return Invalid("a path that is not UTF-8");
  if (path.find('\0') != std::string_view::npos) return Invalid("a path with a NUL");
  if (path.front() == '/') return Invalid("an absolute path");
  for (const std::string& component : Split(path, '/'))
    if (component.empty() || component == "." || component == ".." ||
        component.size() > kComponentBytesMax)
      return Invalid("a path with the component " + Quoted(component));
  return absl::OkStatus();
}

// ".." only at the start: behind a component that is a link it would climb from the link's end, and
// counting names would no longer bound it. By induction no chain of such links leaves the tree.
absl::Status CheckLinkTarget(std::string_view path, std::string_view target) {
  if (target.empty() || target.size() > limits::kPathBytesMax || target.front() == '/' ||
      target.find('\0') != std::string_view::npos || !IsValidUtf8(target))
    return Invalid("a link to " + Quoted(target) + ", which is not a relative path");
  auto depth = std::count(path.begin(), path.end(), '/');
  bool descended = false;
  for (const std::string& component : Split(target, '/')) {
    if (component.empty() || component == ".") continue;
    if (component != "..") {
      descended = true;
    } else if (descended || --depth < 0) {
      return Invalid("a link to " + Quoted(target) + ", which leads outside");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FormatManifest(Manifest manifest) {
  std::sort(manifest.entries.begin(), manifest.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.path < b.path; });
  RT_RETURN_IF_ERROR(CheckManifest(manifest));
  std::string text = Write(manifest);
  if (text.size() > kTextBytesMax)
    return Invalid("a manifest beyond 64 MiB: too many files and chunks", "store fewer files");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  if (text.size() > kTextBytesMax) return Invalid("a manifest beyond 64 MiB");
  auto json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), "manifest");
  const Json* entries = json->Find("entries");
  if (json->GetString("format") != kFormat || entries == nullptr || !entries->is_array())
    return Invalid("not a manifest of format " + std::string(kFormat));
  Manifest manifest{.chunk_bytes = json->GetInt("chunk_bytes")};
  manifest.entries.reserve(entries->array().size());
  for (const Json& entry : entries->array()) manifest.entries.push_back(FromJson(entry));
  RT_RETURN_IF_ERROR(CheckManifest(manifest));
  bool sorted = std::is_sorted(
      manifest.entries.begin(), manifest.entries.end(),
      [](const ManifestEntry& a, const ManifestEntry& b) { return a.path < b.path; });
  if (!sorted || Write(manifest) != text) return Invalid("the manifest is not in canonical form");
  return manifest;
}

std::vector<ChunkSpan> SpansOf(const ManifestEntry& entry, Bytes chunk_bytes) {
  if (entry.cuts.empty()) return ChunkSpans(entry.size, chunk_bytes);
  std::vector<ChunkSpan> spans;
  Bytes offset = 0;
  for (Bytes cut : entry.cuts) {
    spans.push_back({offset, cut});
    offset += cut;
  }
  return spans;
}

std::vector<std::string> ChunksOf(const Manifest& manifest) {
  std::set<std::string> chunks;
  for (const ManifestEntry& entry : manifest.entries)
    chunks.insert(entry.chunks.begin(), entry.chunks.end());
  return {chunks.begin(), chunks.end()};
}

}  // namespace rt
