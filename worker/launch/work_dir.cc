#include "worker/launch/work_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt::worker {
namespace fs = std::filesystem;
namespace {

// Gives the copies the times of what they were copied from: whatever is written later has another
// (written.h).
absl::Status CopyTimes(const std::string& from, const std::string& to) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    const std::string& path = at->path().native();
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const timespec times[2] = {{0, UTIME_OMIT}, info.st_mtim};
    const std::string copy = to + path.substr(from.size());
    if (::utimensat(AT_FDCWD, copy.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
      return ErrnoStatus(errno, "set the time of " + copy);
  }
  return error ? ErrnoStatus(error.value(), "list " + from) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> MakeWorkDir(const LaunchBody& body, const std::string& tree,
                                        const std::string& work) {
  if (!tree.empty()) {
    std::error_code error;
    fs::copy(tree, work, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    if (error) return ErrnoStatus(error.value(), "copy the bundle to " + work);
    RT_RETURN_IF_ERROR(CopyTimes(tree, work));
    return body.cwd.empty() ? work : work + "/" + body.cwd;
  }
  if (!body.cwd.empty()) return body.cwd;
  RT_RETURN_IF_ERROR(EnsureDirectory(work));
  return work;
}

}  // namespace rt::worker
