#include "common/cas/dir_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/manifest.h"
#include "common/cas/store_space.h"
#include "common/run/failpoint.h"
#include "common/run/files.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

// The chunks of a push as large as this are written past the page cache: copying them there costs
// more than all the rest, and they would push out what trials read. Small checkpoints stay in it,
// so that what is lost is soon restored.
constexpr Bytes kDirectPushMin = Bytes{12} << 20;
constexpr size_t kDirectChunkMin = 1u << 20;
constexpr size_t kDirectAlignment = 4'096;  // Of addresses and sizes: what disks ask for.
constexpr size_t kFilesAtOnce = 64;  // Open at the same time by one PutChunks.

absl::StatusOr<std::string> ReadVerified(const std::string& path, const std::string& digest,
                                         std::string_view what) {
  if (!IsDigest(digest))
    return Invalid("'" + EscapeControl(digest.substr(0, 80)) + "' is not a digest");
  auto bytes = ReadFile(path);
  if (absl::IsNotFound(bytes.status()))
    return NotFound("no " + std::string(what) + " " + digest);
  if (!bytes.ok()) return bytes.status();
  RT_RETURN_IF_ERROR(VerifyDigest(digest, *bytes));
  return bytes;
}

// Age and size of a file; nullopt when it is gone.
struct FileFacts {
  Millis age = 0;
  Bytes size = 0;
};
std::optional<FileFacts> FactsOf(const std::string& path) {
  struct stat info {};
  timespec now{};
  if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
  ::clock_gettime(CLOCK_REALTIME, &now);
  Millis age = (now.tv_sec - info.st_mtim.tv_sec) * 1000 +
               (now.tv_nsec - info.st_mtim.tv_nsec) / 1'000'000;
  return FileFacts{.age = age, .size = info.st_size};
}

Bytes SizeOf(const std::string& path) {
  const std::optional<FileFacts> facts = FactsOf(path);
  return facts.has_value() ? facts->size : 0;
}

// Of a store in which `bytes` take the place of what is at `path`.
Bytes GrowthOf(const std::string& path, Bytes bytes) {
  return std::max<Bytes>(0, bytes - SizeOf(path));
}

// Every file below `directory` (one level of folders deep) with a digest for a name.
absl::StatusOr<std::vector<fs::path>> DigestFiles(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    if (IsDigest(at->path().filename().string())) found.push_back(at->path());
  if (error) return ErrnoStatus(error.value(), "list " + directory);
  return found;
}

}  // namespace

// A file that gets its name once it is whole and synced; gone with this object otherwise.
class DirStore::Unfinished {
 public:
  explicit Unfinished(const std::string& folder) {
    static std::atomic<uint64_t> counter{0};
    path_ = folder + "/" + std::to_string(counter.fetch_add(1));
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    error_ = errno;
  }
  Unfinished(Unfinished&& other) noexcept
      : path_(std::exchange(other.path_, "")), fd_(std::exchange(other.fd_, -1)),
        error_(other.error_) {}
  Unfinished& operator=(Unfinished&&) = delete;
  ~Unfinished() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  // Writes, and sends the bytes on their way to the disk; `direct`: past the page cache, where the
  // file system can.
  absl::Status Write(std::string_view bytes, bool direct) {
    if (fd_ < 0) return ErrnoStatus(error_, "create " + path_);
    if (direct && WriteDirect(bytes)) return absl::OkStatus();
    while (!bytes.empty()) {
      ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write " + path_);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // Advice: Sync is what counts.
    return absl::OkStatus();
  }
  absl::Status Sync() {
    return ::fdatasync(fd_) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "sync " + path_);
  }
  absl::Status Name(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename to " + path);
    path_.clear();
    return absl::OkStatus();
  }

 private:
  // False when nothing is written.
  bool WriteDirect(std::string_view bytes) {
    static_assert(limits::kChunkBytes % kDirectAlignment == 0);
    thread_local const std::unique_ptr<char, decltype(&std::free)> buffer(
        static_cast<char*>(std::aligned_alloc(kDirectAlignment, limits::kChunkBytes)), std::free);
    char* aligned = buffer.get();
    if (aligned == nullptr || bytes.size() > limits::kChunkBytes) return false;
    const int flags = ::fcntl(fd_, F_GETFL);
    if (::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return false;
    const size_t blocks = (bytes.size() + kDirectAlignment - 1) / kDirectAlignment;
    const size_t whole = blocks * kDirectAlignment;
    std::copy(bytes.begin(), bytes.end(), aligned);
    std::fill(aligned + bytes.size(), aligned + whole, '\0');
    const ssize_t written = ::write(fd_, aligned, whole);
    const bool done = written == static_cast<ssize_t>(whole) &&
                      ::ftruncate(fd_, static_cast<off_t>(bytes.size())) == 0;
    ::fcntl(fd_, F_SETFL, flags);
    // The other way says what is wrong, if it is more than that this one is not possible; but not
    // behind what was written in part.
    if (!done && (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0))
      ::close(std::exchange(fd_, -1));
    return done;
  }

  std::string path_;
  int fd_ = -1;
  int error_ = 0;
};

absl::StatusOr<std::unique_ptr<DirStore>> DirStore::Open(const std::string& root, Bytes quota) {
  RT_RETURN_IF_ERROR(RemoveTree(root + "/tmp"));
  for (const char* folder : {"/chunks", "/manifests", "/tmp"})
    RT_RETURN_IF_ERROR(EnsureDirectory(root + folder));
  RT_RETURN_IF_ERROR(SyncDirectory(root + "/chunks"));
  RT_RETURN_IF_ERROR(SyncDirectory(root));
  std::unique_ptr<DirStore> store(new DirStore(root, quota));
  RT_RETURN_IF_ERROR(store->CountAll());
  return store;
}

absl::Status DirStore::CountAll() {
  for (const char* folder : {"/chunks", "/manifests"}) {
    RT_ASSIGN_OR_RETURN(std::vector<fs::path> files, DigestFiles(root_ + folder));
    for (const fs::path& path : files) space_.Count(SizeOf(path.string()));
  }
  return absl::OkStatus();
}

std::string DirStore::ChunkPath(const std::string& digest) const {
  return root_ + "/chunks/" + std::string(DigestHex(digest).substr(0, 2)) + "/" + digest;
}

std::string DirStore::ManifestPath(const std::string& digest) const {
  return root_ + "/manifests/" + digest;
}

absl::Status DirStore::WriteDurable(const std::string& path, std::string_view bytes) {
  const auto size = static_cast<Bytes>(bytes.size());
  RT_ASSIGN_OR_RETURN(StoreSpace::Part space,
                      space_.Take({.growth = GrowthOf(path, size), .written = size}));
  Unfinished file(root_ + "/tmp");
  RT_RETURN_IF_ERROR(file.Write(bytes, false));
  RT_RETURN_IF_ERROR(file.Sync());
  RT_RETURN_IF_ERROR(Name(file, path, size, space));
  return SyncDirectory(path.substr(0, path.rfind('/')));
}

absl::Status DirStore::WriteAllDurable(const std::vector<NamedChunk>& chunks,
                                       StoreSpace::Part& space) {
  std::vector<Unfinished> files;
  std::set<std::string> folders;
  Bytes bytes = 0;
  for (const NamedChunk& chunk : chunks) bytes += static_cast<Bytes>(chunk.bytes.size());
  for (const NamedChunk& chunk : chunks) {
    files.emplace_back(root_ + "/tmp");
    const bool direct = bytes >= kDirectPushMin && chunk.bytes.size() >= kDirectChunkMin;
    RT_RETURN_IF_ERROR(files.back().Write(chunk.bytes, direct));
  }
  for (Unfinished& file : files) RT_RETURN_IF_ERROR(file.Sync());
  for (size_t i = 0; i < chunks.size(); ++i) {
    RT_RETURN_IF_ERROR(MakeFolder(chunks[i].digest));
    const std::string path = ChunkPath(chunks[i].digest);
    const auto size = static_cast<Bytes>(chunks[i].bytes.size());
    RT_RETURN_IF_ERROR(Name(files[i], path, size, space));
    folders.insert(path.substr(0, path.rfind('/')));
  }
  for (const std::string& folder : folders) RT_RETURN_IF_ERROR(SyncDirectory(folder));
  return absl::OkStatus();
}

// Says that somebody counts on this file; false when there is none.
bool DirStore::Touch(const std::string& path) {
  std::lock_guard lock(age_mutex_);
  return ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::Status DirStore::Name(Unfinished& file, const std::string& path, Bytes bytes,
                            StoreSpace::Part& space) {
  RT_RETURN_IF_ERROR(FailAt("head.store.before_rename"));
  std::lock_guard lock(age_mutex_);
  const Bytes replaced = SizeOf(path);
  RT_RETURN_IF_ERROR(file.Name(path));
  space.Keep(bytes, replaced);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DirStore::FindMissing(
    const std::vector<std::string>& digests) {
  std::vector<std::string> missing;
  for (const std::string& digest : digests) {
    if (!IsDigest(digest)) return Invalid("FindMissing: a malformed digest");
    if (!Touch(ChunkPath(digest))) missing.push_back(digest);
  }
  return missing;
}

absl::Status DirStore::MakeFolder(const std::string& digest) {
  // One at a time, so that nobody counts on a folder whose name is not durable yet.
  std::lock_guard lock(folder_mutex_);
  std::string folder = root_ + "/chunks/" + std::string(DigestHex(digest).substr(0, 2));
  if (::mkdir(folder.c_str(), 0700) == 0) return SyncDirectory(root_ + "/chunks");
  return errno == EEXIST ? absl::OkStatus() : ErrnoStatus(errno, "make directory " + folder);
}

absl::Status DirStore::PutChunk(const std::string& digest, std::string_view bytes) {
  RT_RETURN_IF_ERROR(VerifyDigest(digest, bytes));
  RT_RETURN_IF_ERROR(MakeFolder(digest));
  // Written even if the name exists: that heals a chunk that went bad on the disk.
  return WriteDurable(ChunkPath(digest), bytes);
}

absl::Status DirStore::PutChunks(const std::vector<NamedChunk>& chunks) {
  std::vector<NamedChunk> some;
  StoreSpace::Want want;
  for (const NamedChunk& chunk : chunks) {
    RT_RETURN_IF_ERROR(VerifyDigest(chunk.digest, chunk.bytes));
    const auto size = static_cast<Bytes>(chunk.bytes.size());
    want.growth += GrowthOf(ChunkPath(chunk.digest), size);
    want.written += size;
  }
  RT_ASSIGN_OR_RETURN(StoreSpace::Part space, space_.Take(want));
  for (const NamedChunk& chunk : chunks) {
    some.push_back(chunk);
    if (some.size() < kFilesAtOnce) continue;
    RT_RETURN_IF_ERROR(WriteAllDurable(some, space));
    some.clear();
  }
  return WriteAllDurable(some, space);
}

// What went bad on the disk is removed: without it FindMissing asks for it again, and so a push
// heals it. It is read again first, because a push may have replaced it since.
absl::StatusOr<std::string> DirStore::ReadNamed(const std::string& path, const std::string& digest,
                                                std::string_view what) {
  auto bytes = ReadVerified(path, digest, what);
  if (!absl::IsDataLoss(bytes.status())) return bytes;
  std::lock_guard lock(age_mutex_);
  bytes = ReadVerified(path, digest, what);
  if (!absl::IsDataLoss(bytes.status())) return bytes;
  const Bytes size = SizeOf(path);
  if (::unlink(path.c_str()) == 0) space_.Count(-size);
  return bytes;
}

absl::StatusOr<std::string> DirStore::GetChunk(const std::string& digest) {
  return ReadNamed(IsDigest(digest) ? ChunkPath(digest) : "", digest, "chunk");
}

absl::StatusOr<std::string> DirStore::PutManifest(std::string_view text) {
  RT_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  RT_ASSIGN_OR_RETURN(std::vector<std::string> missing, FindMissing(ChunksOf(manifest)));
  if (!missing.empty())
    return absl::FailedPreconditionError(
        ToAbsl("the manifest names the missing chunk " + missing.front()));
  std::string digest = Digest(text);
  RT_RETURN_IF_ERROR(WriteDurable(ManifestPath(digest), text));
  return digest;
}

absl::StatusOr<std::string> DirStore::GetManifest(const std::string& digest) {
  // Its chunks will be read: with it they are young again.
  if (IsDigest(digest)) Touch(ManifestPath(digest));
  return ReadManifest(digest);
}

absl::StatusOr<std::string> DirStore::ReadManifest(const std::string& digest) {
  return ReadNamed(IsDigest(digest) ? ManifestPath(digest) : "", digest, "manifest");
}

absl::StatusOr<Swept> DirStore::Sweep(const std::set<std::string>& live_manifests, Millis grace) {
  Swept swept;
  space_.BeginSweep();
  auto remove_if_old = [&](const fs::path& path) {
    std::lock_guard lock(age_mutex_);
    auto facts = FactsOf(path.string());
    if (!facts.has_value()) return false;
    if (facts->age < grace) {
      ++swept.waiting;
      return false;
    }
    ReachFailpoint("head.sweep.before_unlink");
    if (::unlink(path.c_str()) != 0) return false;
    space_.Count(-facts->size);
    swept.bytes += facts->size;
    return true;
  };
  RT_ASSIGN_OR_RETURN(std::vector<fs::path> manifests, DigestFiles(root_ + "/manifests"));
  std::set<std::string> live_chunks;
  for (const fs::path& path : manifests) {
    std::string digest = path.filename().string();
    if (!live_manifests.contains(digest) && remove_if_old(path)) {
      ++swept.manifests;
      continue;
    }
    // A manifest that cannot be read could name any chunk: then nothing is removed.
    RT_ASSIGN_OR_RETURN(std::string text, ReadManifest(digest));
    RT_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
    for (std::string& chunk : ChunksOf(manifest)) live_chunks.insert(std::move(chunk));
  }
  RT_ASSIGN_OR_RETURN(std::vector<fs::path> chunks, DigestFiles(root_ + "/chunks"));
  for (const fs::path& path : chunks)
    if (!live_chunks.contains(path.filename().string()) && remove_if_old(path)) ++swept.chunks;
  return swept;
}

}  // namespace rt
