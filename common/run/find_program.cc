#include "common/run/find_program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : Split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    std::error_code error;
    const std::filesystem::path found =
        std::filesystem::absolute((directory.empty() ? "." : directory) + "/" + name, error)
            .lexically_normal();
    if (!error && std::filesystem::is_regular_file(found, error) &&
        ::access(found.c_str(), X_OK) == 0)
      return found.string();
  }
  return Invalid("'" + name + "' is not in the PATH");
}

absl::StatusOr<std::string> BinaryDirectory() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError("/proc/self/exe: cannot be read");
  return self.parent_path().string();
}

absl::StatusOr<std::string> ProbeProgram(const std::string& binaries) {
  const char* own = std::getenv("RT_PROBE");
  const std::string path = own != nullptr && *own != 0 ? own : binaries + "/rt-probe";
  if (::access(path.c_str(), X_OK) == 0) return path;
  return NotFound("rt-probe is not installed here: " + path + " is not an executable file",
                  "build rt where CMake finds nvcc (CUDA Toolkit), or set RT_PROBE to its path");
}

}  // namespace rt
