#include "worker/session/log_patterns.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/pattern.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "worker/session/log_reader.h"

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

// False as well when the budget is spent.
bool IsInALine(std::string_view text, const Pattern& pattern, const ThreadBudget& budget) {
  for (size_t at = 0; at < text.size() && !budget.IsSpent();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (pattern.IsIn(text.substr(at, std::min(end - at, limits::kPatternLineBytes)))) return true;
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
  const ThreadBudget budget(limits::kPatternsAtEnd);
  for (uint32_t i = 0; i < patterns.size(); ++i) {
    const absl::StatusOr<Pattern> pattern = Pattern::Compile(patterns[i]);
    if (!pattern.ok()) {
      RT_LOG(kWarning) << "a retry rule that an earlier release accepted is switched off: log '"
                       << EscapeControl(patterns[i]) << "': " << MessageOf(pattern.status());
      continue;
    }
    if (IsInALine(texts[0], *pattern, budget) || IsInALine(texts[1], *pattern, budget))
      found.push_back(i);
    if (budget.IsSpent()) {
      RT_LOG(kWarning) << "the patterns of retry rules take too long in " << directory << ": '"
                       << EscapeControl(patterns[i]) << "' and what follows are not looked for";
      break;
    }
  }
  return found;
}

}  // namespace rt::worker
