#include <charconv>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"
#include "common/run/subprocess.h"

namespace rt {
namespace {

struct ProcessStat {
  char state = '?';
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
  constexpr size_t kStartTime = 22 - 3;  // fields[0] is field 3.
  if (fields.size() <= kStartTime || fields[0].empty()) return std::nullopt;
  ProcessStat stat{.state = fields[0][0]};
  const std::string& start = fields[kStartTime];
  auto parsed = std::from_chars(start.data(), start.data() + start.size(), stat.start_time);
  if (parsed.ec != std::errc()) return std::nullopt;
  return stat;
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

}  // namespace rt
