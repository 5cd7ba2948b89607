#include "cli/programs.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : Split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    std::string candidate = AbsolutePath((directory.empty() ? "." : directory) + "/" + name);
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error) && access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return Invalid("'" + name + "' is not in the PATH");
}

}  // namespace rt
