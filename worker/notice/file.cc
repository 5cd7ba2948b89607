#include "worker/notice/file.h"

#include <sys/stat.h>

#include <cerrno>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/files.h"

namespace rt::worker {
namespace {

constexpr size_t kBytesMax = 64 << 10;
constexpr size_t kReasonMax = 200;
constexpr double kSecondsMax = 30.0 * 24 * 3'600;

}  // namespace

absl::StatusOr<std::optional<Notice>> FileNotices::Look(Millis) {
  struct stat facts {};
  if (::stat(path_.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return ErrnoStatus(errno, path_);
  }
  absl::StatusOr<std::string> text = ReadFile(path_, kBytesMax);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  const std::string_view said = Trim(*text);
  Notice notice{"by file"};
  if (!said.starts_with('{')) {
    if (!said.empty()) notice.reason = EscapeControl(said.substr(0, kReasonMax));
    return notice;
  }
  RT_ASSIGN_OR_RETURN(Json json, Json::Parse(said));
  const double seconds = json.GetDouble("deadline_s", 0);
  if (!(seconds >= 0 && seconds <= kSecondsMax))
    return Invalid(path_ + ": deadline_s lies not within 30 days");
  const Millis written =
      Millis{facts.st_mtim.tv_sec} * 1'000 + facts.st_mtim.tv_nsec / 1'000'000;
  if (seconds > 0) notice.deadline = written + static_cast<Millis>(seconds * 1'000);
  const std::string reason = json.GetString("reason");
  if (!reason.empty()) notice.reason = EscapeControl(reason.substr(0, kReasonMax));
  return notice;
}

}  // namespace rt::worker
