#include <charconv>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

constexpr uint64_t kExiting = 4;                        // PF_EXITING among the flags, field 9.
constexpr uint64_t kKillMask = uint64_t{1} << (9 - 1);  // SIGKILL in a mask of /proc/<pid>/status.

struct ProcessStat {
  char state = '?';
  uint64_t flags = 0;
  uint64_t start_time = 0;
};

// The name in field 2 may hold spaces and parentheses: fields are counted from the last ')'.
std::optional<ProcessStat> ReadStat(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/stat", 64 << 10);
  if (!text.ok()) return std::nullopt;
  size_t name_end = text->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return std::nullopt;
  std::vector<std::string> fields = Split(std::string_view(*text).substr(name_end + 2), ' ');
  constexpr size_t kFlags = 9 - 3, kStartTime = 22 - 3;  // fields[0] is field 3.
  if (fields.size() <= kStartTime || fields[0].empty()) return std::nullopt;
  ProcessStat stat{.state = fields[0][0]};
  const std::string& start = fields[kStartTime];
  auto parsed = std::from_chars(start.data(), start.data() + start.size(), stat.start_time);
  if (parsed.ec != std::errc()) return std::nullopt;
  const std::string& flags = fields[kFlags];
  parsed = std::from_chars(flags.data(), flags.data() + flags.size(), stat.flags);
  if (parsed.ec != std::errc()) return std::nullopt;
  return stat;
}

// Whether a SIGKILL is on its way to the process: on a busy machine it takes a while.
bool AwaitsKill(pid_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/status", 64 << 10);
  if (!text.ok()) return false;
  for (const std::string& line : Split(*text, '\n')) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    const std::string_view mask = Trim(std::string_view(line).substr(line.find(':') + 1));
    uint64_t signals = 0;
    std::from_chars(mask.data(), mask.data() + mask.size(), signals, 16);
    if ((signals & kKillMask) != 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<ProcessIdentity> ReadProcessIdentity(pid_t pid) {
  std::optional<ProcessStat> stat = ReadStat(pid);
  if (!stat.has_value()) return NotFound("no process " + std::to_string(pid));
  return ProcessIdentity{.pid = pid, .start_time = stat->start_time};
}

bool IsAlive(const ProcessIdentity& process) {
  std::optional<ProcessStat> stat = ReadStat(process.pid);
  return stat.has_value() && stat->start_time == process.start_time && stat->state != 'Z' &&
         stat->state != 'X';
}

bool IsEnding(pid_t pid) {
  const std::optional<ProcessStat> stat = ReadStat(pid);
  if (!stat.has_value() || stat->state == 'Z' || stat->state == 'X') return true;
  return (stat->flags & kExiting) != 0 || AwaitsKill(pid);
}

}  // namespace rt
