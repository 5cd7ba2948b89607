#include "worker/checkpoint/snapshot.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "common/base/status.h"
#include "common/run/copy_tree.h"

namespace rt::worker {
namespace fs = std::filesystem;

absl::Status TakeSnapshot(const std::string& from, const std::string& to, bool given) {
  struct stat info {};
  if (::stat(from.c_str(), &info) != 0) return ErrnoStatus(errno, from);
  if (S_ISDIR(info.st_mode)) {
    // A link is no directory to move: what it leads to may be anybody's.
    struct stat self {};
    const bool movable = given && ::lstat(from.c_str(), &self) == 0 && S_ISDIR(self.st_mode);
    if (movable && std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return CopyTree(from, to, CopyMode::kCloneOrCopy);
  }
  if (!S_ISREG(info.st_mode)) return Invalid(from + ": neither a directory nor a file");
  if (::mkdir(to.c_str(), 0700) != 0) return ErrnoStatus(errno, "make " + to);
  const std::string name = fs::path(from).lexically_normal().filename().string();
  if (given && std::rename(from.c_str(), (to + "/" + name).c_str()) == 0) return absl::OkStatus();
  std::error_code error;
  const std::string real = fs::canonical(from, error).string();
  if (error) return ErrnoStatus(error.value(), from);
  return CopyFile(real, to + "/" + name, CopyMode::kCloneOrCopy);
}

}  // namespace rt::worker
