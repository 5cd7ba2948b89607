#include "common/run/runtime_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace rt {

std::string RuntimeDirOf(const std::string& state_dir) {
  uint64_t hash = 0;
  for (char letter : state_dir) hash = Mix64(hash ^ static_cast<unsigned char>(letter));
  char path[64];
  std::snprintf(path, sizeof path, "/tmp/rt-%u-%08x", ::getuid(), static_cast<unsigned>(hash));
  return path;
}

absl::StatusOr<std::string> MakeRuntimeDir(const std::string& state_dir) {
  const std::string path = RuntimeDirOf(state_dir);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, path);
  struct stat info {};
  const bool ours = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                    info.st_uid == ::getuid() && (info.st_mode & 077) == 0;
  if (!ours) return absl::PermissionDeniedError(ToAbsl(path + " belongs to someone else"));
  return path;
}

}  // namespace rt
