#include "worker/launch/shim_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace {

std::optional<ProcessIdentity> IdentityIn(const std::string& text, const std::string& boot_id) {
  std::istringstream words(text);
  ProcessIdentity identity;
  std::string boot;
  if (!(words >> identity.pid >> identity.start_time >> boot) || boot != boot_id)
    return std::nullopt;
  return identity;
}

absl::Status Append(const std::string& path, const std::string& line) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + path);
  const ssize_t written = ::write(fd, line.data(), line.size());
  absl::Status status;
  if (written != static_cast<ssize_t>(line.size())) status = ErrnoStatus(errno, "write " + path);
  ::close(fd);
  return status;
}

}  // namespace

ShimFile ReadShimFile(const std::string& path) {
  ShimFile file;
  auto text = ReadFile(path, 1 << 20);
  auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 4096);
  if (!text.ok() || !boot.ok()) return file;
  const std::string boot_id(Trim(*boot));
  ExitFacts exit;
  size_t at = 0;
  for (size_t end = 0; (end = text->find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text->substr(at, end - at);
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "shim") {
      file = {.has_shim = true, .shim = IdentityIn(value, boot_id)};
      exit = {};
    }
    if (key == "group") file.group = value;
    if (key == "not_started") file.not_started = true;
    if (key == "program") file.program = IdentityIn(value, boot_id);
    if (key == "exit_code") exit.exit_code = std::atoi(value.c_str());
    if (key == "signal") exit.signal = std::atoi(value.c_str());
    if (key == "launch_failed") exit.launch_failed = value == "1";
    if (key == "reason") exit.reason = value;
    if (key == "ended" && file.shim) {
      exit.witnessed = false;
      file.exit = exit;
    }
    if (key == "over_memory") file.over_memory = value;
    if (key == "witnessed" && file.exit) file.exit->witnessed = true;
  }
  return file;
}

absl::Status NoteWitnessed(const std::string& path) { return Append(path, "witnessed\n"); }
absl::Status NoteOverMemory(const std::string& path, const std::string& why) {
  return Append(path, "over_memory " + why + "\n");
}

}  // namespace rt::worker
