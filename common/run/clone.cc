#include "common/run/clone.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/base/status.h"

namespace rt {
namespace fs = std::filesystem;
namespace {

absl::Status CloneFile(const std::string& from, const std::string& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (source < 0) return ErrnoStatus(errno, "open " + from);
  struct stat info {};
  const mode_t mode = ::fstat(source, &info) == 0 ? (info.st_mode & 0755) | 0600 : 0600;
  const int target = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  absl::Status cloned;
  if (target < 0) {
    cloned = ErrnoStatus(errno, "create " + to);
  } else if (::ioctl(target, FICLONE, source) != 0) {
    cloned = absl::UnimplementedError("this file system cannot clone files");
  } else if (::fchmod(target, mode) != 0) {  // Whatever the umask is.
    cloned = ErrnoStatus(errno, "chmod " + to);
  }
  ::close(source);
  if (target >= 0) ::close(target);
  return cloned;
}

}  // namespace

absl::Status CloneTree(const std::string& from, const std::string& to) {
  if (::mkdir(to.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + to);
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    const std::string target = to + "/" + at->path().filename().string();
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    absl::Status cloned;
    if (fs::is_directory(status)) {
      cloned = CloneTree(path, target);
    } else if (fs::is_symlink(status)) {
      fs::copy_symlink(path, target, error);
    } else if (fs::is_regular_file(status)) {
      cloned = CloneFile(path, target);
    }
    if (!cloned.ok()) return cloned;
    if (error) break;
  }
  return error ? ErrnoStatus(error.value(), "clone " + from) : absl::OkStatus();
}

}  // namespace rt
