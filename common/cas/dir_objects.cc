#include "common/cas/dir_objects.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/cas/store_space.h"
#include "common/run/files.h"
#include "common/run/random.h"

namespace rt {
namespace {

constexpr Millis kLeftoverAge = 86'400'000;  // Far beyond the time that one write takes.
constexpr Bytes kObjectBytesMax = Bytes{4} << 30;

Millis MillisOf(const timespec& time) { return time.tv_sec * 1000 + time.tv_nsec / 1'000'000; }

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

absl::StatusOr<std::set<std::string>> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder.c_str()), ::closedir);
  if (stream == nullptr) {
    if (errno == ENOENT) return names;
    return ErrnoStatus(errno, "open " + folder);
  }
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    names.insert(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return ErrnoStatus(errno, "list " + folder);
  return names;
}

absl::Status RemoveLeftovers(const std::string& folder) {
  RT_ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn(folder));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  for (const std::string& name : names) {
    struct stat info {};
    const std::string path = folder + "/" + name;
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (MillisOf(now) - MillisOf(info.st_mtim) < kLeftoverAge) continue;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return ErrnoStatus(errno, "remove " + path);
  }
  return absl::OkStatus();
}

// The name is there already, but perhaps not durably: whoever sees it must be able to count on it.
absl::Status SyncAfterNaming(const std::string& folder) {
  absl::Status status = SyncDirectory(folder);
  if (status.ok()) return status;
  return absl::UnavailableError(status.message());  // Whether the name lasts is open.
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirObjects>> DirObjects::Open(const std::string& root) {
  for (const char* folder : {"/objects", "/tmp"})
    RT_RETURN_IF_ERROR(EnsureDirectory(root + folder));
  RT_RETURN_IF_ERROR(SyncDirectory(root));
  RT_RETURN_IF_ERROR(RemoveLeftovers(root + "/tmp"));
  return std::unique_ptr<DirObjects>(new DirObjects(root));
}

std::string DirObjects::PathOf(std::string_view key) const {
  std::string path = root_ + "/objects/";
  for (char c : key) path += c == '/' ? std::string("+/") : std::string(1, c);
  return path;
}

absl::StatusOr<std::string> DirObjects::WriteTemporary(std::string_view bytes) {
  // Empty objects are marks; a sweep must be able to set them when the disk is full.
  if (!bytes.empty()) RT_RETURN_IF_ERROR(CheckSpace(root_, static_cast<Bytes>(bytes.size())));
  std::string path = root_ + "/tmp/" + RandomHex(16);
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "create " + path);
  absl::Status status;
  while (!bytes.empty() && status.ok()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) status = ErrnoStatus(errno, "write " + path);
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (status.ok() && ::fsync(fd) != 0) status = ErrnoStatus(errno, "sync " + path);
  if (::close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, "close " + path);
  if (status.ok()) return path;
  ::unlink(path.c_str());
  return status;
}

absl::Status DirObjects::MakeFolders(const std::string& path) {
  const std::string folder = ParentOf(path);
  if (folder == root_ + "/objects") return absl::OkStatus();
  {
    std::lock_guard lock(mutex_);
    if (durable_folders_.contains(folder)) return absl::OkStatus();
  }
  RT_RETURN_IF_ERROR(MakeFolders(folder));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, "make directory " + folder);
  // Also when another process made it: that one may not have synced it yet.
  RT_RETURN_IF_ERROR(SyncDirectory(ParentOf(folder)));
  std::lock_guard lock(mutex_);
  durable_folders_.insert(folder);
  return absl::OkStatus();
}

absl::Status DirObjects::PutIfAbsent(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  RT_RETURN_IF_ERROR(MakeFolders(path));
  RT_ASSIGN_OR_RETURN(std::string temporary, WriteTemporary(bytes));
  int error = ::link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;
  struct stat info {};
  // On NFS a repeated request answers EEXIST to a link that was made: the count tells.
  if (error == EEXIST && ::stat(temporary.c_str(), &info) == 0 && info.st_nlink == 2) error = 0;
  ::unlink(temporary.c_str());
  if (error == EPERM || error == EOPNOTSUPP)
    return WithHint(absl::UnimplementedError(ToAbsl("the file system of " + root_ +
                                                    " has no hard links")),
                    "choose a directory on another file system, or a bucket");
  if (error != 0 && error != EEXIST) return ErrnoStatus(error, "link " + path);
  RT_RETURN_IF_ERROR(SyncAfterNaming(ParentOf(path)));
  return error == 0 ? absl::OkStatus()
                    : absl::AlreadyExistsError(ToAbsl("there is an object " + key));
}

absl::Status DirObjects::Put(const std::string& key, std::string_view bytes) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  RT_RETURN_IF_ERROR(MakeFolders(path));
  RT_ASSIGN_OR_RETURN(std::string temporary, WriteTemporary(bytes));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = ErrnoStatus(errno, "rename to " + path);
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncAfterNaming(ParentOf(path));
}

absl::StatusOr<std::string> DirObjects::Get(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  auto bytes = ReadFile(PathOf(key), kObjectBytesMax);
  if (absl::IsNotFound(bytes.status())) return NotFound("no object " + key);
  return bytes;
}

absl::StatusOr<std::string> DirObjects::GetRange(const std::string& key, Bytes offset, Bytes size) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  if (offset < 0 || size < 0 || size > kObjectBytesMax) return Invalid("an odd range of " + key);
  const std::string path = PathOf(key);
  int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? NotFound("no object " + key) : ErrnoStatus(errno, path);
  struct stat info {};
  absl::Status status = ::fstat(fd, &info) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
  if (status.ok() && (offset > info.st_size || size > info.st_size - offset))
    status = absl::OutOfRangeError(ToAbsl(key + " has " + std::to_string(info.st_size) +
                                          " bytes; asked for " + std::to_string(size) + " at " +
                                          std::to_string(offset)));
  std::string bytes(status.ok() ? static_cast<size_t>(size) : 0, '\0');
  for (size_t filled = 0; status.ok() && filled < bytes.size();) {
    ssize_t got = ::pread(fd, bytes.data() + filled, bytes.size() - filled,
                          offset + static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = ErrnoStatus(errno, "read " + path);
    if (got == 0) status = absl::DataLossError(ToAbsl(path + " shrank while it was read"));
    if (got > 0) filled += static_cast<size_t>(got);
  }
  ::close(fd);
  if (!status.ok()) return status;
  return bytes;
}

absl::StatusOr<std::optional<ObjectInfo>> DirObjects::Look(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0)
    return ObjectInfo{key, info.st_size, MillisOf(info.st_mtim)};
  if (errno == ENOENT) return std::nullopt;
  return ErrnoStatus(errno, path);
}

absl::StatusOr<std::vector<ObjectInfo>> DirObjects::List(const std::string& prefix,
                                                         const std::string& after,
                                                         size_t count_max) {
  std::vector<ObjectInfo> listed;
  RT_RETURN_IF_ERROR(ListFolder(root_ + "/objects", "", prefix, after, count_max, listed));
  return listed;
}

absl::Status DirObjects::ListFolder(const std::string& folder, const std::string& key_prefix,
                                    const std::string& prefix, const std::string& after,
                                    size_t count_max, std::vector<ObjectInfo>& listed) {
  RT_ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn(folder));
  // Sorted as the keys are: a folder counts as "name/".
  std::set<std::string> keys;
  for (const std::string& name : names)
    keys.insert(key_prefix +
                (name.ends_with('+') ? name.substr(0, name.size() - 1) + "/" : name));
  for (const std::string& key : keys) {
    if (listed.size() >= count_max) break;
    if (key.ends_with('/')) {
      const bool fits = key.starts_with(prefix) || prefix.starts_with(key);
      if (!fits || (key < after && !after.starts_with(key))) continue;
      RT_RETURN_IF_ERROR(ListFolder(ParentOf(PathOf(key)), key, prefix, after, count_max, listed));
    } else if (key.starts_with(prefix) && key > after && CheckObjectKey(key).ok()) {
      RT_ASSIGN_OR_RETURN(std::optional<ObjectInfo> info, Look(key));
      if (info.has_value()) listed.push_back(std::move(*info));  // Else deleted meanwhile.
    }
  }
  return absl::OkStatus();
}

absl::Status DirObjects::Delete(const std::string& key) {
  RT_RETURN_IF_ERROR(CheckObjectKey(key));
  const std::string path = PathOf(key);
  if (::unlink(path.c_str()) != 0)
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "remove " + path);
  return SyncAfterNaming(ParentOf(path));
}

}  // namespace rt
