#include "worker/run/work_dir.h"

#include <filesystem>

#include "common/base/status.h"
#include "common/run/files.h"

namespace rt::worker {

absl::StatusOr<std::string> MakeWorkDir(const LaunchBody& body, const std::string& tree,
                                        const std::string& work) {
  namespace fs = std::filesystem;
  if (!tree.empty()) {
    std::error_code error;
    fs::copy(tree, work, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    if (error) return ErrnoStatus(error.value(), "copy the bundle to " + work);
    return body.cwd.empty() ? work : work + "/" + body.cwd;
  }
  if (!body.cwd.empty()) return body.cwd;
  RT_RETURN_IF_ERROR(EnsureDirectory(work));
  return work;
}

}  // namespace rt::worker
