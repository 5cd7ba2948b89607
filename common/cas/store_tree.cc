#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/digest.h"
#include "common/cas/ignore.h"
#include "common/cas/manifest.h"
#include "common/cas/tensors.h"
#include "common/cas/tree.h"
#include "common/run/files.h"

namespace rt {
namespace {

namespace fs = std::filesystem;

// Chunks gathered before the store is asked which of them it lacks: few questions, bounded memory
// (twice that: the chunks before are still being stored).
constexpr size_t kPendingBytesMax = 64u << 20;
constexpr size_t kPendingChunksMax = 1'000;
constexpr Bytes kIgnoreFileBytesMax = 1 << 20;

// With a null store it only measures.
class TreeStorer {
 public:
  TreeStorer(BlobStore* store, const TreeOptions& options)
      : store_(store), is_bundle_(options.honour_ignore_files), only_(options.only),
        unreadable_(options.unreadable), on_progress_(options.on_progress),
        is_cancelled_(options.is_cancelled) {
    std::error_code error;
    for (const std::string& path : options.exclude)
      excluded_.insert(fs::weakly_canonical(path, error).string());
  }

  absl::Status AddDirectory(const std::string& directory, const std::string& relative);
  absl::Status AddFile(const std::string& path, const std::string& relative);
  absl::StatusOr<StoredTree> Finish();
  TreeSize Measured();

 private:
  bool IsLeftOut(const std::string& path, const std::string& relative, bool is_directory);
  absl::Status Measure(const std::string& relative, Bytes bytes);
  absl::Status AddEntry(const std::string& path, const std::string& relative);
  bool IsWanted(const std::string& relative, bool is_directory) const;
  absl::Status AddLink(const std::string& path, const std::string& relative);
  bool IsUnreadable(const std::string& relative, const absl::Status& status);
  // People work where a bundle is taken from: what has gone since its directory was listed is not
  // in it. What a trial saved must be whole.
  bool HasGone(int error) const { return is_bundle_ && error == ENOENT; }
  absl::Status CheckManifestSize(const ManifestEntry& entry, Bytes file_bytes) const;
  absl::Status ReadChunks(int fd, Bytes file_bytes, ManifestEntry& entry);
  absl::Status AddChunk(std::string bytes, ManifestEntry& entry);
  void ReadIgnoreFiles(const std::string& directory, const std::string& relative);
  absl::Status Flush();
  absl::Status Await();  // What Flush began.

  BlobStore* const store_;
  const bool is_bundle_;
  const std::map<std::string, Bytes>* const only_;
  std::map<std::string, std::string>* const unreadable_;
  const std::function<void(Bytes)> on_progress_;
  const std::function<bool()> is_cancelled_;
  std::set<std::string> excluded_;
  IgnoreRules rules_;
  Manifest manifest_;
  size_t manifest_bytes_ = 0;  // Of the text of its files so far, about.
  StoredTree stored_;
  std::map<std::string, Bytes> entries_;  // Of the root, while measuring.
  Bytes read_ = 0;
  std::map<std::string, std::string> pending_;  // Digest -> bytes.
  size_t pending_bytes_ = 0;
  std::set<std::string> known_;  // In the store, or on the way there.
  bool is_read_failed_ = false;  // A file's own read has failed, not the store.
  std::future<absl::Status> storing_;  // Its destructor waits.
};

absl::StatusOr<std::vector<std::string>> SortedNames(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + directory);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
  if (stream == nullptr) {
    ::close(fd);
    return ErrnoStatus(errno, "open " + directory);
  }
  std::set<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.insert(std::move(name));
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus(errno, "list " + directory);
  return std::vector<std::string>(names.begin(), names.end());
}

std::vector<Bytes> SizesOf(const std::vector<ChunkSpan>& spans) {
  std::vector<Bytes> sizes;
  for (const ChunkSpan& span : spans) sizes.push_back(span.size);
  return sizes;
}

// At the ends of its tensors, where it has some; fixed cuts otherwise.
std::vector<Bytes> PlanCuts(int fd, Bytes file_bytes) {
  auto read = [fd](Bytes offset, Bytes size, std::string& bytes) {
    bytes.assign(static_cast<size_t>(size), '\0');
    for (size_t filled = 0; filled < bytes.size();) {
      ssize_t got = ::pread(fd, bytes.data() + filled, bytes.size() - filled,
                            offset + static_cast<off_t>(filled));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      filled += static_cast<size_t>(got);
    }
    return true;
  };
  return SizesOf(CutAtTensors(FindTensors(read, file_bytes), file_bytes));
}

// About what a file adds to the text of its manifest, with its digests and their quotes.
size_t TextBytesOf(const ManifestEntry& entry, size_t chunks) {
  constexpr size_t kNames = 64;   // "path", "mode", "size", "chunks" and the punctuation.
  constexpr size_t kDigest = 70;  // With the quotes and the comma.
  constexpr size_t kCut = 8;
  return kNames + entry.path.size() + chunks * kDigest + entry.cuts.size() * kCut;
}

void TreeStorer::ReadIgnoreFiles(const std::string& directory, const std::string& relative) {
  for (const char* name : {"/.gitignore", "/.rtignore"})
    if (auto text = ReadFile(directory + name, kIgnoreFileBytesMax); text.ok())
      rules_.AddFile(relative, *text);
}

absl::Status TreeStorer::AddDirectory(const std::string& directory, const std::string& relative) {
  const size_t rules_before = rules_.size();
  const size_t entries_before = manifest_.entries.size();
  if (is_bundle_) ReadIgnoreFiles(directory, relative);
  absl::StatusOr<std::vector<std::string>> names = SortedNames(directory);
  if (!names.ok()) {
    const bool has_gone = !relative.empty() && ::access(directory.c_str(), F_OK) != 0;
    if (has_gone && HasGone(errno)) return absl::OkStatus();
    return IsUnreadable(relative, names.status()) ? absl::OkStatus() : names.status();
  }
  for (const std::string& name : *names)
    RT_RETURN_IF_ERROR(
        AddEntry(directory + "/" + name, relative.empty() ? name : relative + "/" + name));
  rules_.Truncate(rules_before);
  // Of a bundle, a directory that holds something is left out with all that it holds: what is left
  // out must not show in the digest.
  const bool is_named = only_ == nullptr || only_->contains(relative);
  const bool is_kept = is_bundle_ ? names->empty() : is_named;
  if (is_kept && !relative.empty() && manifest_.entries.size() == entries_before)
    manifest_.entries.push_back({.path = relative, .kind = ManifestEntry::Kind::kDirectory});
  return absl::OkStatus();
}

// A directory also for what is wanted below it.
bool TreeStorer::IsWanted(const std::string& relative, bool is_directory) const {
  if (only_ == nullptr || only_->contains(relative)) return true;
  const std::string below = relative + "/";
  const auto first = only_->lower_bound(below);
  return is_directory && first != only_->end() && first->first.starts_with(below);
}

// Whether the tree is stored without it.
bool TreeStorer::IsUnreadable(const std::string& relative, const absl::Status& status) {
  if (unreadable_ != nullptr) (*unreadable_)[relative] = MessageOf(status);
  return unreadable_ != nullptr;
}

absl::Status TreeStorer::AddEntry(const std::string& path, const std::string& relative) {
  if (excluded_.contains(path)) return absl::OkStatus();
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (HasGone(errno)) return absl::OkStatus();
    const absl::Status failed = ErrnoStatus(errno, path);
    return !IsWanted(relative, false) || IsUnreadable(relative, failed) ? absl::OkStatus() : failed;
  }
  if (is_bundle_) {
    if (IsLeftOut(path, relative, S_ISDIR(info.st_mode))) return absl::OkStatus();
  }
  if (!IsWanted(relative, S_ISDIR(info.st_mode))) return absl::OkStatus();
  if (absl::Status status = CheckRelativePath(relative); !status.ok())
    return Annotate(status, EscapeControl(path));
  if (S_ISDIR(info.st_mode)) return AddDirectory(path, relative);
  if (store_ == nullptr)
    return S_ISREG(info.st_mode) ? Measure(relative, info.st_size) : absl::OkStatus();
  if (S_ISLNK(info.st_mode)) return AddLink(path, relative);
  if (S_ISREG(info.st_mode)) return AddFile(path, relative);
  if (is_bundle_) stored_.left_out[relative] = "neither a file, a directory nor a link";
  else RT_LOG(kWarning) << "left out: " << EscapeControl(path) << " is no file, directory or link";
  return absl::OkStatus();
}

// What of a bundle is left out by the user's rules, or by ours unless '!' takes it back.
bool TreeStorer::IsLeftOut(const std::string& path, const std::string& relative,
                           bool is_directory) {
  const std::string_view name = std::string_view(relative).substr(relative.rfind('/') + 1);
  if (name == ".git") return true;
  if (const std::optional<bool> said = rules_.Decide(relative, is_directory)) return *said;
  if (!is_directory) return false;
  const bool is_environment = Exists(path + "/pyvenv.cfg");
  if (!is_environment && name != "node_modules") return false;
  stored_.left_out[relative + "/"] = is_environment ? "a virtual environment" : "packages of Node";
  return true;
}

absl::Status TreeStorer::Measure(const std::string& relative, Bytes bytes) {
  ++stored_.files;
  stored_.bytes += bytes;
  const size_t slash = relative.find('/');
  entries_[slash == std::string::npos ? relative : relative.substr(0, slash + 1)] += bytes;
  return absl::OkStatus();
}

TreeSize TreeStorer::Measured() {
  return {stored_.bytes, stored_.files, std::move(entries_), std::move(stored_.left_out)};
}

absl::Status TreeStorer::AddLink(const std::string& path, const std::string& relative) {
  char text[PATH_MAX];
  ssize_t size = ::readlink(path.c_str(), text, sizeof text);
  if (size < 0) return HasGone(errno) ? absl::OkStatus() : ErrnoStatus(errno, path);
  ManifestEntry entry{.path = relative,
                      .kind = ManifestEntry::Kind::kLink,
                      .target = std::string(text, static_cast<size_t>(size))};
  if (absl::Status status = CheckLinkTarget(relative, entry.target); !status.ok()) {
    if (!is_bundle_) return Annotate(status, EscapeControl(path));
    // Virtual environments and data folders are full of these; they mean nothing on another
    // machine.
    stored_.left_out[relative] = "it links outside the directory";
    return absl::OkStatus();
  }
  manifest_.entries.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status TreeStorer::AddFile(const std::string& path, const std::string& relative) {
  int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    if (HasGone(errno)) return absl::OkStatus();
    const absl::Status failed = ErrnoStatus(errno, "open " + path);
    return IsUnreadable(relative, failed) ? absl::OkStatus() : failed;
  }
  struct stat info {};
  absl::Status status = ::fstat(fd, &info) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
  ManifestEntry entry{.path = relative, .mode = (info.st_mode & 0755) | 0600};
  if (status.ok()) status = CheckManifestSize(entry, info.st_size);
  if (status.ok()) status = ReadChunks(fd, info.st_size, entry);
  ::close(fd);
  if (std::exchange(is_read_failed_, false) && IsUnreadable(relative, status))
    return absl::OkStatus();
  if (!status.ok()) return Annotate(status, path);
  ++stored_.files;
  stored_.bytes += entry.size;
  manifest_bytes_ += TextBytesOf(entry, entry.chunks.size());
  manifest_.entries.push_back(std::move(entry));
  return is_bundle_ ? CheckBundleSize(stored_.files, stored_.bytes) : absl::OkStatus();
}

// A file of many TiB, sparse or not, is refused before hours are spent on reading it.
absl::Status TreeStorer::CheckManifestSize(const ManifestEntry& entry, Bytes file_bytes) const {
  const Bytes most = only_ == nullptr ? file_bytes : std::min(file_bytes, only_->at(entry.path));
  const auto chunks = static_cast<size_t>(most / Bytes{limits::kChunkBytes});
  if (manifest_bytes_ + TextBytesOf(entry, chunks) <= limits::kManifestBytesMax)
    return absl::OkStatus();
  return Invalid("the tree is too large: with this file of " + BytesText(file_bytes) + " it has " +
                     BytesText(stored_.bytes + file_bytes) + " in " +
                     std::to_string(stored_.files + 1) + " files, and its manifest exceeds the " +
                     "limit of " + BytesText(Bytes{limits::kManifestBytesMax}),
                 "a tree may have about 850 GiB, or 100 000 small files: save less, fewer files, "
                 "or a shard from each rank");
}

// What was read is what is stored, also when somebody writes to the file meanwhile: the plan only
// says where to cut.
absl::Status TreeStorer::ReadChunks(int fd, Bytes file_bytes, ManifestEntry& entry) {
  const Bytes most =
      only_ == nullptr ? std::numeric_limits<Bytes>::max() : only_->at(entry.path);
  const std::vector<Bytes> plan = is_bundle_ ? std::vector<Bytes>() : PlanCuts(fd, file_bytes);
  std::vector<Bytes> cuts;
  while (true) {
    if (is_cancelled_ && is_cancelled_()) return absl::CancelledError("it is not needed any more");
    const size_t wanted = cuts.size() < plan.size() ? static_cast<size_t>(plan[cuts.size()])
                                                    : limits::kChunkBytes;
    const Bytes allowed = std::min(static_cast<Bytes>(wanted), most - entry.size);
    // No more than is left by the size of the file, as most are far smaller than a chunk. One byte
    // more shows whether it has grown.
    const Bytes left = std::max(file_bytes - entry.size, Bytes{0}) + 1;
    std::string bytes(static_cast<size_t>(std::min(allowed, left)), '\0');
    size_t filled = 0;
    while (filled < static_cast<size_t>(allowed)) {
      if (filled == bytes.size()) bytes.resize(static_cast<size_t>(allowed));
      ssize_t got = ::read(fd, bytes.data() + filled, bytes.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        is_read_failed_ = true;
        return ErrnoStatus(errno, "read");
      }
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    const bool last =
        filled < static_cast<size_t>(allowed) || entry.size + static_cast<Bytes>(filled) >= most;
    if (filled > 0) {
      cuts.push_back(static_cast<Bytes>(filled));
      bytes.resize(filled);
      RT_RETURN_IF_ERROR(AddChunk(std::move(bytes), entry));
      read_ += static_cast<Bytes>(filled);
      if (on_progress_) on_progress_(read_);
    }
    if (!last) continue;
    if (cuts != SizesOf(ChunkSpans(entry.size))) entry.cuts = std::move(cuts);
    return absl::OkStatus();
  }
}

absl::Status TreeStorer::AddChunk(std::string bytes, ManifestEntry& entry) {
  const size_t size = bytes.size();
  bytes.shrink_to_fit();
  std::string digest = Digest(bytes);
  entry.size += static_cast<Bytes>(size);
  entry.chunks.push_back(digest);
  if (!known_.contains(digest) && pending_.try_emplace(digest, std::move(bytes)).second)
    pending_bytes_ += size;
  if (pending_bytes_ >= kPendingBytesMax || pending_.size() >= kPendingChunksMax) return Flush();
  return absl::OkStatus();
}

absl::Status StoreMissing(BlobStore& store, const std::map<std::string, std::string>& chunks) {
  std::vector<std::string> digests;
  for (const auto& [digest, bytes] : chunks) digests.push_back(digest);
  RT_ASSIGN_OR_RETURN(std::vector<std::string> missing, store.FindMissing(digests));
  std::vector<NamedChunk> wanted;
  for (const std::string& digest : missing)
    if (auto found = chunks.find(digest); found != chunks.end())
      wanted.push_back({digest, found->second});
  return wanted.empty() ? absl::OkStatus() : store.PutChunks(wanted);
}

// Stores on a thread of its own, so that the next chunks are read and hashed meanwhile.
absl::Status TreeStorer::Flush() {
  RT_RETURN_IF_ERROR(Await());
  if (pending_.empty()) return absl::OkStatus();
  for (const auto& [digest, bytes] : pending_) known_.insert(digest);
  storing_ = std::async(std::launch::async, [this, chunks = std::exchange(pending_, {})] {
    return StoreMissing(*store_, chunks);
  });
  pending_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status TreeStorer::Await() {
  return storing_.valid() ? storing_.get() : absl::OkStatus();
}

absl::StatusOr<StoredTree> TreeStorer::Finish() {
  RT_RETURN_IF_ERROR(Flush());
  RT_RETURN_IF_ERROR(Await());
  RT_ASSIGN_OR_RETURN(stored_.text, FormatManifest(std::move(manifest_)));
  RT_ASSIGN_OR_RETURN(stored_.manifest, store_->PutManifest(stored_.text));
  return stored_;
}

absl::StatusOr<StoredTree> StoreOnce(BlobStore& store, const std::string& root,
                                     const TreeOptions& options) {
  std::error_code error;
  TreeStorer storer(&store, options);
  RT_RETURN_IF_ERROR(fs::is_directory(root, error)
                         ? storer.AddDirectory(root, "")
                         : storer.AddFile(root, fs::path(root).filename().string()));
  return storer.Finish();
}

}  // namespace

absl::Status CheckBundleSize(size_t files, Bytes bytes) {
  constexpr std::string_view kHint = "list what the code does not need in .rtignore";
  if (files > limits::kBundleFilesMax)
    return Invalid("the working directory holds more than 100 000 files", kHint);
  if (bytes > limits::kBundleBytesMax)
    return Invalid("the working directory holds more than 2 GiB", kHint);
  return absl::OkStatus();
}

absl::StatusOr<TreeSize> MeasureTree(const std::string& path, const TreeOptions& options) {
  std::error_code error;
  const std::string root = fs::canonical(path, error).string();
  if (error) return ErrnoStatus(error.value(), path);
  TreeStorer storer(nullptr, options);
  RT_RETURN_IF_ERROR(storer.AddDirectory(root, ""));
  return storer.Measured();
}

absl::StatusOr<StoredTree> StoreTree(BlobStore& store, const std::string& path,
                                     const TreeOptions& options) {
  std::error_code error;
  std::string root = fs::canonical(path, error).string();
  if (error) return ErrnoStatus(error.value(), path);
  // What was found there at first may be gone when the manifest comes (a sweep, damage): then it is
  // asked for anew, once.
  auto stored = StoreOnce(store, root, options);
  if (absl::IsFailedPrecondition(stored.status())) stored = StoreOnce(store, root, options);
  return stored;
}

}  // namespace rt
