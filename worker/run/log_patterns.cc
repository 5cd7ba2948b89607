#include "worker/run/log_patterns.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/policies.h"
#include "worker/run/log_reader.h"

namespace rt::worker {
namespace {

std::string TailOf(const std::string& directory, const char* stream) {
  LogReader reader(directory, stream);
  const auto most = static_cast<uint64_t>(limits::kPatternLogBytes);
  reader.SeekToLast(most);
  std::string text;
  for (std::string piece; text.size() < most && !(piece = reader.Read(most)).empty();)
    text += piece;
  return text;
}

bool IsInALine(const std::string& text, const std::regex& pattern) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const auto length = static_cast<std::ptrdiff_t>(std::min(end - at, limits::kPatternLineBytes));
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::regex_search(from, from + length, pattern)) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<uint32_t> FindPatterns(const std::string& directory,
                                   const std::vector<std::string>& patterns) {
  std::vector<uint32_t> found;
  if (patterns.empty()) return found;
  const std::string texts[] = {TailOf(directory, "stderr"), TailOf(directory, "stdout")};
  for (uint32_t i = 0; i < patterns.size(); ++i) {
    const absl::StatusOr<std::regex> pattern = LogPattern(patterns[i]);
    if (!pattern.ok()) {  // It was checked at submission: by another build, then.
      RT_LOG(kWarning) << EscapeControl(patterns[i]) << ": " << MessageOf(pattern.status());
      continue;
    }
    if (IsInALine(texts[0], *pattern) || IsInALine(texts[1], *pattern)) found.push_back(i);
  }
  return found;
}

}  // namespace rt::worker
