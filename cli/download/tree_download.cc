#include "cli/download/tree_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "common/base/status.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "common/run/owned_fd.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

constexpr char kPart[] = ".rt-part";        // A tree that is not whole yet.
constexpr char kSalvage[] = ".rt-salvage";  // The file of it that a killed call was writing.

// Empty when so much cannot be read.
std::string ReadAt(int fd, Bytes offset, Bytes bytes) {
  std::string data(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t count = ::pread(fd, data.data() + done, data.size() - done,
                                  static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    done += static_cast<size_t>(count);
  }
  return data;
}

// The remote store, behind the chunks of one file that an earlier call had begun to write.
class SalvagedSource final : public BlobSource {
 public:
  explicit SalvagedSource(BlobSource& remote) : remote_(remote) {}

  void Use(const std::string& file, const ManifestEntry& entry, Bytes chunk_bytes) {
    fd_ = std::make_unique<OwnedFd>(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const std::vector<ChunkSpan> spans = SpansOf(entry, chunk_bytes);
    for (size_t i = 0; i < spans.size(); ++i) spans_.emplace(entry.chunks[i], spans[i]);
  }

  absl::StatusOr<std::string> GetChunk(const std::string& digest) override {
    if (const auto span = spans_.find(digest); span != spans_.end() && fd_->get() >= 0) {
      std::string bytes = ReadAt(fd_->get(), span->second.offset, span->second.size);
      if (!bytes.empty() && VerifyDigest(digest, bytes).ok()) return bytes;
    }
    absl::StatusOr<std::string> bytes = remote_.GetChunk(digest);
    if (bytes.ok()) fetched_ += static_cast<Bytes>(bytes->size());
    return bytes;
  }
  absl::StatusOr<std::string> GetManifest(const std::string& digest) override {
    return remote_.GetManifest(digest);
  }
  Bytes fetched() const { return fetched_; }

 private:
  BlobSource& remote_;
  std::unique_ptr<OwnedFd> fd_;
  std::map<std::string, ChunkSpan> spans_;
  std::atomic<Bytes> fetched_ = 0;
};

bool HoldsFile(const std::string& path, const ManifestEntry& entry, Bytes chunk_bytes) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size != entry.size)
    return false;
  const std::vector<ChunkSpan> spans = SpansOf(entry, chunk_bytes);
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::string bytes = ReadAt(file.get(), spans[i].offset, spans[i].size);
    if (bytes.empty() || !VerifyDigest(entry.chunks[i], bytes).ok()) return false;
  }
  return true;
}

Bytes SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<Bytes>(size);
}

absl::StatusOr<Manifest> GetTree(BlobSource& source, const std::string& digest) {
  RT_ASSIGN_OR_RETURN(std::string text, source.GetManifest(digest));
  return ParseManifest(text);
}

// Takes out of `tree` what lies in `part` already, and sets the file aside that is there in part.
absl::Status Salvage(const std::string& part, const std::string& salvage, Manifest& tree,
                     SalvagedSource& source) {
  const ManifestEntry* begun = nullptr;
  std::vector<ManifestEntry> wanted;
  for (ManifestEntry& entry : tree.entries) {
    const std::string path = part + "/" + entry.path;
    const bool is_file = entry.kind == ManifestEntry::Kind::kFile;
    if (is_file && HoldsFile(path, entry, tree.chunk_bytes) &&
        ::chmod(path.c_str(), entry.mode & 0755) == 0)
      continue;
    wanted.push_back(std::move(entry));
  }
  tree.entries = std::move(wanted);
  for (const ManifestEntry& entry : tree.entries) {
    if (entry.kind != ManifestEntry::Kind::kFile) continue;
    begun = &entry;  // Files are written one after another: no later one was begun.
    break;
  }
  if (begun == nullptr) return absl::OkStatus();
  const std::string path = part + "/" + begun->path;
  if (SizeOf(path) > SizeOf(salvage) && ::rename(path.c_str(), salvage.c_str()) != 0)
    return ErrnoStatus(errno, "rename " + path);
  if (Exists(salvage)) source.Use(salvage, *begun, tree.chunk_bytes);
  return absl::OkStatus();
}

std::string BesideOf(const std::string& target, const std::string& manifest, const char* ending) {
  const fs::path path(target);
  return (path.parent_path() / ("." + path.filename().string() + "." +
                                std::string(DigestHex(manifest).substr(0, 12)) + ending))
      .string();
}

}  // namespace

absl::StatusOr<Bytes> FetchTrees(BlobSource& remote, const std::vector<std::string>& manifests,
                                 const std::string& target) {
  if (manifests.empty() || !IsDigest(manifests.back()))
    return absl::InternalError("a tree without a manifest");
  const std::string part = BesideOf(target, manifests.back(), kPart);
  const std::string salvage = BesideOf(target, manifests.back(), kSalvage);
  RT_RETURN_IF_ERROR(EnsureDirectory(part, 0755));
  Bytes fetched = 0;
  for (const std::string& digest : manifests) {
    SalvagedSource source(remote);
    RT_ASSIGN_OR_RETURN(Manifest tree, GetTree(remote, digest));
    RT_RETURN_IF_ERROR(Salvage(part, salvage, tree, source));
    RT_RETURN_IF_ERROR(RestoreEntries(source, tree, part, nullptr));
    fetched += source.fetched();
  }
  RT_RETURN_IF_ERROR(RemoveTree(salvage));
  RT_RETURN_IF_ERROR(RemoveTree(target));
  if (::rename(part.c_str(), target.c_str()) != 0) return ErrnoStatus(errno, "rename " + part);
  return fetched;
}

absl::StatusOr<bool> HoldsTrees(BlobSource& source, const std::vector<std::string>& manifests,
                                const std::string& directory) {
  std::map<std::string, std::pair<ManifestEntry, Bytes>> wanted;
  for (const std::string& digest : manifests) {
    RT_ASSIGN_OR_RETURN(Manifest tree, GetTree(source, digest));
    for (const ManifestEntry& entry : tree.entries)
      wanted[entry.path] = {entry, tree.chunk_bytes};
  }
  size_t found = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const auto entry = wanted.find(at->path().lexically_relative(directory).string());
    const bool is_directory = at->is_directory(error) && !at->is_symlink(error);
    if (entry == wanted.end()) {
      if (!is_directory || fs::is_empty(at->path(), error)) return false;
      continue;
    }
    const auto& [one, chunk_bytes] = entry->second;
    const bool same = one.kind == ManifestEntry::Kind::kFile
                          ? HoldsFile(at->path().string(), one, chunk_bytes)
                      : one.kind == ManifestEntry::Kind::kLink
                          ? at->is_symlink(error) &&
                                fs::read_symlink(at->path(), error).string() == one.target
                          : is_directory;
    if (!same) return false;
    ++found;
  }
  if (error) return ErrnoStatus(error.value(), "read " + directory);
  return found == wanted.size();
}

absl::Status RemoveParts(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") && (name.ends_with(kPart) || name.ends_with(kSalvage)))
      RT_RETURN_IF_ERROR(RemoveTree(entry.path().string()));
  }
  return absl::OkStatus();
}

}  // namespace rt
