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

constexpr Millis kLookEvery = 500;
constexpr Millis kPauseFirst = 500;
constexpr Millis kPauseMax = 60'000;

void Say(const std::string& line) {
  std::fprintf(stderr, "%s rt: %s\n", FormatTime(WallClock()).c_str(), EscapeControl(line).c_str());
}

// Until the head has ended in order, or has been dead for too long.
int Watch(const std::string& directory, const LocalCluster& cluster, const std::string& end_file,
          Millis dead_max) {
  Millis alive_at = SteadyClock(), next_try = 0, pause = kPauseFirst;
  for (bool has_died = false; Exists(directory); SleepFor(kLookEvery)) {
    const Millis now = SteadyClock();
    if (cluster.HeadIsAlive()) {
      alive_at = now;
      has_died = false;
      continue;
    }
    if (!has_died && !Exists(directory + "/head/pid")) return 0;  // It has ended in order.
    has_died = true;
    if (dead_max > 0 && now - alive_at > dead_max) {
      Say("the head has died and cannot be started: its machine ends");
      return WriteFileAtomic(end_file, "the head cannot be started\n").ok() ? 0 : 1;
    }
    if (now < next_try) continue;
    Say("the head has died, and is started again");
    const absl::Status started = cluster.EnsureHead();
    if (!started.ok()) Say(MessageOf(started) + "; " + HintOf(started));
    pause = started.ok() ? kPauseFirst : std::min(2 * pause, kPauseMax);
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
    Say(MessageOf(noted));
    return 1;
  }
  const LocalCluster cluster(directory, -1, {words.begin() + 3, words.end()});
  return Watch(directory, cluster, words[1], std::atoll(words[2].c_str()));
}

}  // namespace rt
