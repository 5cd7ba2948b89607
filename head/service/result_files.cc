#include "head/service/result_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/manifest.h"
#include "common/run/owned_fd.h"

namespace rt {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// NotFound also when a link or a file is in the way.
absl::Status CannotOpen(int error, const std::string& path) {
  if (error == ENOENT || error == ELOOP || error == ENOTDIR)
    return NotFound("there is no directory " + EscapeControl(path));
  return ErrnoStatus(error, "open " + EscapeControl(path));
}

absl::StatusOr<OwnedFd> OpenBelow(const Folder& root, const std::string& directory) {
  OwnedFd at(::openat(root.fd(), ".", kDirectoryFlags));
  if (at.get() < 0) return CannotOpen(errno, root.path());
  if (directory.empty()) return at;
  RT_RETURN_IF_ERROR(CheckRelativePath(directory));
  for (const std::string& component : Split(directory, '/')) {
    OwnedFd next(::openat(at.get(), component.c_str(), kDirectoryFlags));
    if (next.get() < 0) return CannotOpen(errno, root.path() + "/" + directory);
    at = std::move(next);
  }
  return at;
}

absl::StatusOr<ResultFile> Describe(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, path);
  if (!S_ISREG(info.st_mode)) return NotFound("there is no result file " + path);
  return ResultFile{path, static_cast<uint64_t>(info.st_size),
                    info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_ino};
}

// O_NONBLOCK: a FIFO of that name must not hold a thread.
OwnedFd OpenFile(const OwnedFd& directory, const std::string& name) {
  return OwnedFd(::openat(directory.get(), name.c_str(),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

struct DirCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

bool IsResultFile(std::string_view name) {
  for (std::string_view known : {"result.json", "progress.csv", "params.json", "error.txt"})
    if (name == known) return true;
  if (name.starts_with("pbt_policy_") && name.ends_with(".txt")) return true;
  return name.starts_with("events.out.tfevents.") && !name.ends_with(".tmp");
}

absl::StatusOr<std::vector<ResultFile>> ListResultFiles(const Folder& root,
                                                        const std::string& directory) {
  absl::StatusOr<OwnedFd> opened = OpenBelow(root, directory);
  if (absl::IsNotFound(opened.status())) return std::vector<ResultFile>();
  if (!opened.ok()) return opened.status();
  std::unique_ptr<DIR, DirCloser> listing(::fdopendir(::fcntl(opened->get(), F_DUPFD_CLOEXEC, 0)));
  if (listing == nullptr) return ErrnoStatus(errno, "list " + root.path() + "/" + directory);
  std::vector<ResultFile> files;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (!IsResultFile(name)) continue;
    const OwnedFd file = OpenFile(*opened, name);
    if (file.get() < 0) continue;  // A link, or replaced just now.
    auto described = Describe(file.get(), directory.empty() ? name : directory + "/" + name);
    if (described.ok()) files.push_back(*std::move(described));
  }
  std::sort(files.begin(), files.end(),
            [](const ResultFile& a, const ResultFile& b) { return a.path < b.path; });
  return files;
}

absl::StatusOr<ResultPiece> ReadResultFile(const Folder& root, const std::string& path,
                                           uint64_t offset, size_t bytes_max) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const absl::Status absent = NotFound("there is no result file " + EscapeControl(path));
  if (!CheckRelativePath(path).ok() || !IsResultFile(name)) return absent;
  absl::StatusOr<OwnedFd> opened = OpenBelow(root, directory);
  if (absl::IsNotFound(opened.status())) return absent;
  if (!opened.ok()) return opened.status();
  const OwnedFd file = OpenFile(*opened, name);
  if (file.get() < 0) return absent;
  ResultPiece piece;
  RT_ASSIGN_OR_RETURN(piece.file, Describe(file.get(), path));
  piece.data.resize(bytes_max);
  ssize_t count = 0;
  do {
    count = ::pread(file.get(), piece.data.data(), bytes_max, static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  if (count < 0) return ErrnoStatus(errno, "read " + path);
  piece.data.resize(static_cast<size_t>(count));
  return piece;
}

}  // namespace rt
