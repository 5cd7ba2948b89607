#include "worker/session/reported_files.h"

#include <algorithm>
#include <filesystem>

#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/run/files.h"
#include "worker/trees/tree_files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

std::string NameFor(const std::string& path) { return std::string(DigestHex(Digest(path))); }

bool HasBytesOf(const ManifestEntry& entry, Bytes chunk_bytes, const std::string& file) {
  const std::vector<ChunkSpan> spans = SpansOf(entry, chunk_bytes);
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto piece = ReadPiece(file, spans[i].offset, spans[i].size);
    if (!piece.ok() || !VerifyDigest(entry.chunks[i], *piece).ok()) return false;
  }
  return true;
}

bool IsSame(const ManifestEntry& entry, Bytes chunk_bytes, const std::string& file,
            const struct stat& info) {
  switch (entry.kind) {
    case ManifestEntry::Kind::kFile:
      return S_ISREG(info.st_mode) && info.st_size == entry.size &&
             HasBytesOf(entry, chunk_bytes, file);
    case ManifestEntry::Kind::kLink: return S_ISLNK(info.st_mode) && LinkOf(file) == entry.target;
    case ManifestEntry::Kind::kDirectory: return S_ISDIR(info.st_mode);
  }
  return false;
}

}  // namespace

std::string OutputPlace(uint32_t rank, const std::string& name) {
  return rank == 0 ? name : "rank-" + std::to_string(rank) + "/" + name;
}

std::string OutputPathOf(const RunDir& dir, uint32_t rank, const std::string& path) {
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  if (error) return "";
  for (const char* name : {"work", "trial"}) {
    const std::string root = fs::canonical(dir.path + "/" + name, error).string();
    if (!error && real.starts_with(root + "/"))
      return OutputPlace(rank, name) + real.substr(root.size());
  }
  return "";
}

absl::Status NoteReported(const RunDir& dir, const std::string& path, const SpoolRow& row,
                          bool is_whole, const std::string& manifest_text) {
  if (path.empty() || manifest_text.empty()) return absl::OkStatus();
  RT_RETURN_IF_ERROR(EnsureDirectory(dir.reported()));
  const Json note = Json::MakeObject(
      {{"seq", Json(row.seq)}, {"is_whole", is_whole}, {"manifest", manifest_text}});
  return WriteFileAtomic(dir.reported() + "/" + NameFor(path), note.Dump(), {.sync = false});
}

ReportedFiles::ReportedFiles(std::string notes, uint64_t whole_seq)
    : notes_(std::move(notes)), whole_seq_(whole_seq) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(notes_, error))
    names_.insert(entry.path().filename().string());
}

// Null when there is none that counts.
const ReportedFiles::Note* ReportedFiles::NoteOf(const std::string& path) {
  if (read_ == path) return note_ ? &*note_ : nullptr;
  read_ = path;
  note_.reset();
  auto text = ReadFile(notes_ + "/" + NameFor(path));
  auto json = text.ok() ? Json::Parse(*text) : absl::StatusOr<Json>(text.status());
  if (!json.ok()) return nullptr;
  const auto seq = static_cast<uint64_t>(std::max<int64_t>(0, json->GetInt("seq")));
  if (!json->GetBool("is_whole") && seq > whole_seq_) return nullptr;
  auto manifest = ParseManifest(json->GetString("manifest"));
  if (!manifest.ok()) return nullptr;
  note_.emplace(Note{.chunk_bytes = manifest->chunk_bytes});
  for (ManifestEntry& entry : manifest->entries)
    note_->entries.emplace(entry.path, std::move(entry));
  return &*note_;
}

bool ReportedFiles::Has(const std::string& path, const std::string& file, const struct stat& info) {
  if (names_.empty()) return false;
  // The path itself, and every directory above it.
  for (size_t end = path.size(); end != std::string::npos; end = path.rfind('/', end - 1)) {
    const std::string reported = path.substr(0, end);
    if (!names_.contains(NameFor(reported))) continue;
    const Note* note = NoteOf(reported);
    if (note == nullptr) continue;
    // A file that was reported alone is the only one of its checkpoint.
    const bool is_alone = end == path.size() && note->entries.size() == 1;
    const auto entry = is_alone ? note->entries.begin()
                                : note->entries.find(path.substr(std::min(end + 1, path.size())));
    if (entry != note->entries.end() && IsSame(entry->second, note->chunk_bytes, file, info))
      return true;
  }
  return false;
}

}  // namespace rt::worker
