#include "common/run/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/base/status.h"

namespace rt {
namespace {

constexpr mode_t kDirectoryMode = 0777;  // Less the umask: results are for people to look at.
constexpr mode_t kFileMode = 0644;

absl::Status WriteAll(int fd, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(fd, text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, "write");
    }
  }
  return absl::OkStatus();
}

absl::Status CutAndWrite(int fd, const std::string& text, uint64_t length) {
  struct stat found;
  if (fstat(fd, &found) != 0) return ErrnoStatus(errno, "stat");
  if (static_cast<uint64_t>(found.st_size) < length)
    return absl::DataLossError("it is shorter than it was");
  if (ftruncate(fd, static_cast<off_t>(length)) != 0 ||
      lseek(fd, static_cast<off_t>(length), SEEK_SET) < 0)
    return ErrnoStatus(errno, "truncate");
  return WriteAll(fd, text);
}

// A name that leads nowhere but into the directory that it is looked up in.
bool IsPlain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

absl::StatusOr<Folder> Folder::OpenTrusted(const std::string& path, bool make) {
  if (make) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return ErrnoStatus(error.value(), "create " + path);
  }
  const int fd = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  return Folder(fd, path == "/" ? "" : path);
}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

Folder::~Folder() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Folder::Failed(int error, const char* what, const std::string& name) const {
  const std::string path = path_ + "/" + name;
  struct stat found;
  const bool is_link = (error == ELOOP || error == ENOTDIR) &&
                       fstatat(fd_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISLNK(found.st_mode);
  if (is_link)
    return absl::PermissionDeniedError(
        ToAbsl(path + " is a symbolic link, and links are not followed"));
  return ErrnoStatus(error, std::string(what) + " " + path);
}

absl::Status Folder::Make(const std::string& name) const {
  if (!IsPlain(name)) return Invalid(path_ + "/" + name + ": not a directory's name");
  if (mkdirat(fd_, name.c_str(), kDirectoryMode) != 0) return Failed(errno, "create", name);
  return absl::OkStatus();
}

absl::StatusOr<Folder> Folder::Find(const std::string& name) const {
  if (!IsPlain(name)) return Invalid(path_ + "/" + name + ": not a directory's name");
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int fd = openat(fd_, name.c_str(), kFlags);
  if (fd < 0) return Failed(errno, "open", name);
  return Folder(fd, path_ + "/" + name);
}

absl::StatusOr<Folder> Folder::Enter(const std::string& name) const {
  absl::StatusOr<Folder> found = Find(name);
  if (!absl::IsNotFound(found.status())) return found;
  absl::Status made = Make(name);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return Find(name);
}

void Folder::RemoveEmpty(const std::string& name) const {
  if (IsPlain(name)) unlinkat(fd_, name.c_str(), AT_REMOVEDIR);
}

absl::StatusOr<FolderId> Folder::GetId() const {
  struct stat found;
  if (fstat(fd_, &found) != 0) return ErrnoStatus(errno, "stat " + path_);
  return FolderId{found.st_dev, found.st_ino};
}

// O_NONBLOCK: a pipe that lies there does not hold us up.
absl::StatusOr<int> Folder::OpenFile(const std::string& name, int flags) const {
  if (!IsPlain(name)) return Invalid(path_ + "/" + name + ": not a file's name");
  const int fd = openat(fd_, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kFileMode);
  if (fd < 0) return Failed(errno, "open", name);
  struct stat found;
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) return fd;
  close(fd);
  return absl::PermissionDeniedError(ToAbsl(path_ + "/" + name + " is not a regular file"));
}

absl::Status Folder::Append(const std::string& name, const std::string& text,
                            uint64_t& length) const {
  RT_ASSIGN_OR_RETURN(const int fd, OpenFile(name, O_WRONLY | O_CREAT));
  const absl::Status status = CutAndWrite(fd, text, length);
  close(fd);
  if (!status.ok()) return Annotate(status, path_ + "/" + name);
  length += text.size();
  return absl::OkStatus();
}

absl::Status Folder::Replace(const std::string& name, const std::string& text) const {
  if (!IsPlain(name)) return Invalid(path_ + "/" + name + ": not a file's name");
  const std::string temporary = name + ".tmp";
  RT_ASSIGN_OR_RETURN(const int fd, OpenFile(temporary, O_WRONLY | O_CREAT | O_TRUNC));
  const absl::Status status = WriteAll(fd, text);
  close(fd);
  if (!status.ok()) return Annotate(status, path_ + "/" + temporary);
  if (renameat(fd_, temporary.c_str(), fd_, name.c_str()) != 0)
    return Failed(errno, "rename to", name);
  return absl::OkStatus();
}

absl::Status Folder::Remove(const std::string& name) const {
  if (!IsPlain(name)) return Invalid(path_ + "/" + name + ": not a file's name");
  if (unlinkat(fd_, name.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  return Failed(errno, "remove", name);
}

absl::Status Folder::SyncFileSystem() const {
  const int fd = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path_);
  const int failed = syncfs(fd) == 0 ? 0 : errno;
  close(fd);
  return failed == 0 ? absl::OkStatus() : ErrnoStatus(failed, "sync " + path_);
}

}  // namespace rt
