#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/read_ahead.h"
#include "common/cas/tree.h"
#include "common/run/files.h"
#include "common/run/owned_fd.h"

namespace rt {
namespace {

// Enough to keep a line busy while chunks are verified and written; 32 MiB of memory.
constexpr size_t kFetchesAtOnce = 8;
constexpr Bytes kAheadBytes = Bytes{32} << 20;

// Writes below one directory. Each component is opened relative to the one before it and never
// through a link, so that nothing that lies in the target already can lead outside.
class TreeWriter {
 public:
  TreeWriter(ReadAhead& chunks, OwnedFd root, const std::function<void(size_t)>& on_written)
      : chunks_(chunks), root_(std::move(root)), on_written_(on_written) {}

  absl::Status Write(const ManifestEntry& entry) {
    if (entry.kind == ManifestEntry::Kind::kDirectory) return Enter(entry.path);
    size_t slash = entry.path.rfind('/');
    RT_RETURN_IF_ERROR(Enter(slash == std::string::npos ? "" : entry.path.substr(0, slash)));
    std::string name = entry.path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (::unlinkat(folder(), name.c_str(), 0) != 0 && errno != ENOENT)
      return ErrnoStatus(errno, "replace");
    if (entry.kind == ManifestEntry::Kind::kFile) return WriteFile(name, entry);
    if (::symlinkat(entry.target.c_str(), folder(), name.c_str()) != 0)
      return ErrnoStatus(errno, "link");
    return absl::OkStatus();
  }

 private:
  int folder() const { return folder_.get() >= 0 ? folder_.get() : root_.get(); }

  // Makes and opens the folder at this relative path; entries come sorted, so most stay where they
  // are.
  absl::Status Enter(const std::string& path) {
    if (path == folder_path_) return absl::OkStatus();
    folder_ = OwnedFd();
    folder_path_ = "";
    if (path.empty()) return absl::OkStatus();
    OwnedFd at;
    for (const std::string& component : Split(path, '/')) {
      int parent = at.get() >= 0 ? at.get() : root_.get();
      if (::mkdirat(parent, component.c_str(), 0755) != 0 && errno != EEXIST)
        return ErrnoStatus(errno, "make folder");
      OwnedFd next(::openat(parent, component.c_str(),
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (next.get() < 0) return ErrnoStatus(errno, "enter folder '" + component + "'");
      at = std::move(next);
    }
    folder_ = std::move(at);
    folder_path_ = path;
    return absl::OkStatus();
  }

  absl::Status WriteFile(const std::string& name, const ManifestEntry& entry) {
    OwnedFd file(::openat(folder(), name.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return ErrnoStatus(errno, "create");
    for (size_t i = 0; i < entry.chunks.size(); ++i) {
      RT_ASSIGN_OR_RETURN(std::string bytes, chunks_.Next());
      RT_RETURN_IF_ERROR(WriteAll(file.get(), bytes));
      ++written_;
      if (on_written_) on_written_(written_);
    }
    return ::fchmod(file.get(), entry.mode & 0755) == 0 ? absl::OkStatus()
                                                        : ErrnoStatus(errno, "chmod");
  }

  static absl::Status WriteAll(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus(errno, "write");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  ReadAhead& chunks_;
  OwnedFd root_;
  const std::function<void(size_t)>& on_written_;
  size_t written_ = 0;  // Chunks.
  OwnedFd folder_;  // Of folder_path_; unset for the root.
  std::string folder_path_;
};

}  // namespace

std::vector<WantedChunk> WantedBy(const Manifest& tree) {
  std::vector<WantedChunk> wanted;
  for (const ManifestEntry& entry : tree.entries) {
    const std::vector<ChunkSpan> spans = SpansOf(entry, tree.chunk_bytes);
    for (size_t i = 0; i < spans.size(); ++i) wanted.push_back({entry.chunks[i], spans[i].size});
  }
  return wanted;
}

absl::Status RestoreEntries(BlobSource& source, const Manifest& tree, const std::string& target,
                            const std::function<void(size_t)>& on_written) {
  RT_RETURN_IF_ERROR(EnsureDirectory(target));
  OwnedFd root(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return ErrnoStatus(errno, "open " + target);
  ReadAhead chunks(source, WantedBy(tree), kFetchesAtOnce, kAheadBytes);
  TreeWriter writer(chunks, std::move(root), on_written);
  for (const ManifestEntry& entry : tree.entries)
    if (absl::Status status = writer.Write(entry); !status.ok())
      return Annotate(status, "restore " + target + "/" + EscapeControl(entry.path));
  return absl::OkStatus();
}

absl::Status RestoreTree(BlobSource& source, const std::string& manifest,
                         const std::string& target) {
  RT_ASSIGN_OR_RETURN(std::string text, source.GetManifest(manifest));
  RT_ASSIGN_OR_RETURN(Manifest tree, ParseManifest(text));
  return RestoreEntries(source, tree, target, nullptr);
}

}  // namespace rt
