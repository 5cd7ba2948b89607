// Commands of the user that are told how the cluster grows and shrinks: `autoscaling.hooks` of
// cluster.yaml. Each is executed without a shell, in the environment of the head with RT_CLUSTER
// and RT_HOOK added, and reads one JSON object on standard input (docs/user-guide.md). A command
// that fails is logged and shown in the status, and changes nothing else. What happens while no
// head runs is not told.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/json.h"
#include "head/core/core.h"

namespace rt {

struct ScalingHooks {
  std::map<std::string, std::vector<std::string>> commands;  // argv, by scale_up and so on.
  Millis timeout = 30'000;
};

// What the hooks are told about, read on the core thread.
struct ScalingView {
  struct Item {
    std::string pool;
    bool is_live = false;   // Not released.
    bool is_ready = false;  // Its node takes work.
    bool has_notice = false;
    Json node;  // {"id", "name", "address", "labels"}
  };
  std::string cluster;
  std::map<uint64_t, Item> machines;
  Json demand;  // [{"shape": {…}, "count": 3}]
};
ScalingView ScalingViewOf(const Core& core);
// The same as it was when this head started. The core decides before anybody looks at it for the
// first time, and that is told as well.
ScalingView ScalingViewAtStart(const Core& core);

struct HookCall {
  std::string event;  // scale_up, scale_down, node_ready, preempted.
  Json message;
};
// What changed between two views, a call for each pool and event.
std::vector<HookCall> CallsBetween(const ScalingView& before, const ScalingView& after);

class ScalingNews {
 public:
  explicit ScalingNews(ScalingHooks hooks);
  ~ScalingNews();  // Ends after the command that runs; the others are dropped.
  ScalingNews(const ScalingNews&) = delete;
  ScalingNews& operator=(const ScalingNews&) = delete;

  void See(ScalingView view);   // By one thread. The first view is where the news begin.
  std::string problem() const;  // The newest failure; empty: none since the last success.

 private:
  void Run();
  void Execute(const HookCall& call);

  const ScalingHooks hooks_;
  std::optional<ScalingView> last_;
  mutable std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::deque<HookCall> queue_;
  std::string cluster_;
  std::string problem_;
  bool stopping_ = false;
  std::thread thread_;  // Of hooks, if there are any; the last member.
};

}  // namespace rt
