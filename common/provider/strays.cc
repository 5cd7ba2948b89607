#include "common/provider/strays.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt {
namespace {

// Whether the process belongs to the cluster: one of our programs, or a trial or job that they
// started, with a path of the cluster in its arguments or its environment.
bool BelongsTo(const std::string& process, const std::string& directory) {
  absl::StatusOr<std::string> comm = ReadFile(process + "/comm");
  absl::StatusOr<std::string> arguments = ReadFile(process + "/cmdline");
  absl::StatusOr<std::string> environment = ReadFile(process + "/environ");
  std::string inside = directory + "/";
  if (comm.ok() && arguments.ok() && comm->starts_with("rt-") &&
      arguments->find(inside) != std::string::npos)
    return true;
  if (!environment.ok()) return false;
  for (const std::string& variable : Split(*environment, '\0'))
    for (const char* name : {"RT_TRIAL_DIR=", "RT_CONFIG=", "RT_RUN_DIR="})
      if (variable.starts_with(name + inside)) return true;
  return false;
}

}  // namespace

void KillStrays(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid > 1 && pid != getpid() && BelongsTo(entry.path().string(), directory))
      kill(pid, SIGKILL);
  }
}

}  // namespace rt
