#include "cli/hosts/head_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/client/local_cluster.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/run/clock.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Millis kHeadLookEvery = 500;
constexpr Millis kRestartPauseFirst = 500;
constexpr Millis kRestartPauseMax = 60'000;

void NoteLine(const std::string& line) {
  std::fprintf(stderr, "%s rt: %s\n", FormatTime(WallClock()).c_str(), EscapeControl(line).c_str());
}

// Until the head has ended in order, or has been dead for too long.
int WatchHead(const std::string& directory, const LocalCluster& cluster,
              const std::string& end_file, Millis dead_max) {
  Millis alive_at = SteadyClock(), next_try = 0, pause = kRestartPauseFirst;
  for (bool has_died = false; Exists(directory); SleepFor(kHeadLookEvery)) {
    const Millis now = SteadyClock();
    if (cluster.HeadIsAlive()) {
      alive_at = now;
      has_died = false;
      continue;
    }
    if (!has_died && !Exists(directory + "/head/pid")) return 0;  // It has ended in order.
    has_died = true;
    if (dead_max > 0 && now - alive_at > dead_max) {
      NoteLine("the head has died and cannot be started: its machine ends");
      return WriteFileAtomic(end_file, "the head cannot be started\n").ok() ? 0 : 1;
    }
    if (now < next_try) continue;
    NoteLine("the head has died, and is started again");
    const absl::Status started = cluster.EnsureHead();
    if (absl::IsCancelled(started)) return 0;
    if (!started.ok()) NoteLine(MessageOf(started) + "; " + HintOf(started));
    has_died = !started.ok();
    pause = started.ok() ? kRestartPauseFirst : std::min(2 * pause, kRestartPauseMax);
    next_try = SteadyClock() + pause;
  }
  return 0;
}

}  // namespace

std::string KeeperDirectory(const std::string& cluster_directory) {
  return cluster_directory + "/keeper";
}

std::vector<std::string> KeeperCommand(const std::string& programs, const KeepWish& wish) {
  std::vector<std::string> argv = {programs + "/rt", "__keep-head", KeeperDirectory(wish.directory),
                                   wish.end_file, std::to_string(wish.dead_max)};
  argv.insert(argv.end(), wish.head_flags.begin(), wish.head_flags.end());
  return argv;
}

int KeepHead(const std::vector<std::string>& words) {
  if (words.size() < 3) return 2;
  const std::string directory = std::filesystem::path(words[0]).parent_path();
  const absl::Status noted =
      WriteFileAtomic(words[0] + "/pid", std::to_string(::getpid()) + "\n", {.sync = false});
  if (!noted.ok()) {
    NoteLine(MessageOf(noted));
    return 1;
  }
  const LocalCluster cluster(directory, -1, {words.begin() + 3, words.end()});
  return WatchHead(directory, cluster, words[1], std::atoll(words[2].c_str()));
}

}  // namespace rt
