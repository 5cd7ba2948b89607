#include "head/service/results_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/status.h"

namespace rt {
namespace {

constexpr mode_t kMode = 0777;  // Less the umask: results are for people to look at.

absl::Status CannotMake(const std::string& path, int error) {
  return Invalid("results_dir: " + path + " cannot be made: " + std::strerror(error));
}

}  // namespace

absl::StatusOr<std::string> ReserveResultsDir(const ExperimentSpec& spec,
                                              const std::string& root) {
  const std::string parent = spec.results_dir.empty() ? root : spec.results_dir;
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) return CannotMake(parent, error.value());
  const std::string wanted = parent + "/" + spec.name;
  std::string path = wanted;
  for (int suffix = 2; ::mkdir(path.c_str(), kMode) != 0; ++suffix) {
    if (errno != EEXIST) return CannotMake(path, errno);
    path = wanted + "-" + std::to_string(suffix);
  }
  return path;
}

void ReleaseResultsDir(const std::string& path) { ::rmdir(path.c_str()); }

}  // namespace rt
