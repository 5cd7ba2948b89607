#include "worker/session/rank_stacks.h"

#include <algorithm>
#include <memory>
#include <string>

#include "common/base/strings.h"
#include "common/run/clock.h"
#include "worker/session/log_reader.h"
#include "worker/session/socket_limits.h"

namespace rt::worker {
namespace {

constexpr Millis kLookEvery = 20;
// More is read and dropped: what a program writes meanwhile comes before or between the stacks.
constexpr size_t kReadBytes = 64u << 10;

// What one rank has written since it was asked.
struct Asked {
  uint32_t rank = 0;
  std::unique_ptr<LogReader> log;
  std::string text;
  Millis grown_at = 0;
};

bool IsDone(const Asked& asked, Millis now) {
  return !asked.text.empty() && now - asked.grown_at >= limits::kStackQuiet;
}

void ReadMore(Asked& asked, Millis now) {
  const std::string more = asked.log->Read(kReadBytes);
  if (more.empty()) return;
  asked.text += more;
  asked.grown_at = now;
  // The thread that trains comes last.
  if (asked.text.size() > limits::kStackBytesMax)
    asked.text.erase(0, asked.text.size() - limits::kStackBytesMax);
}

}  // namespace

std::vector<RankStack> ReadRankStacks(Launcher& launcher, const AttemptId& attempt,
                                      const std::vector<uint32_t>& ranks) {
  std::vector<Asked> all;
  for (uint32_t rank : ranks) {
    if (all.size() == limits::kStackRanksMax) break;
    const Fence fence{attempt, rank};
    const std::string logs = launcher.LogsOf(fence);
    if (logs.empty()) continue;
    Asked asked{.rank = rank, .log = std::make_unique<LogReader>(logs, "stderr"), .text = {}};
    asked.log->SeekToLast(0);
    if (launcher.AskForStacks(fence, false)) all.push_back(std::move(asked));
  }
  const Millis until = SteadyClock() + limits::kStackWait;
  for (Millis now = SteadyClock(); now < until; now = SteadyClock()) {
    for (Asked& asked : all) ReadMore(asked, now);
    if (std::all_of(all.begin(), all.end(), [&](const Asked& one) { return IsDone(one, now); }))
      break;
    SleepFor(kLookEvery);
  }
  std::vector<RankStack> stacks;
  for (const Asked& asked : all)
    if (!asked.text.empty())
      stacks.push_back({asked.rank, ValidUtf8(Trim(asked.text), limits::kStackBytesMax)});
  return stacks;
}

}  // namespace rt::worker
