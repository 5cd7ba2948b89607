// `rt watch [EXP]`: the live screen of an experiment until it ends, or of the cluster, until Ctrl-C
// or the key q.
#include <map>
#include <optional>

#include "cli/client/local_cluster.h"
#include "cli/commands/common.h"
#include "cli/live_view.h"
#include "cli/quit_key.h"
#include "common/base/status.h"
#include "common/run/clock.h"

namespace rt {
namespace {

constexpr Millis kLookEvery = 500;

// Without a terminal: one view for every open experiment.
ExitCode FollowCluster(HeadClient& client, const Invocation& invocation) {
  std::map<int64_t, LiveView> views;
  std::map<int64_t, bool> ended;
  bool first = true;
  while (true) {
    RT_ASSIGN_OR_RETURN(Json reply, ListExperiments(client));
    const Json* items = reply.Find("items");
    for (const Json& item : items == nullptr ? Json::Array() : items->array()) {
      int64_t id = item.GetInt("id");
      bool over = IsTerminal(item.GetString("state"));
      if (ended[id] || (over && first)) {
        ended[id] = true;
        continue;
      }
      views.try_emplace(id, client, 1, invocation, "").first->second.Show(item);
      ended[id] = over;
    }
    first = false;
    SleepFor(kLookEvery);
  }
}

}  // namespace

ExitCode RunWatch(const Invocation& invocation) {
  RT_RETURN_IF_ERROR(CheckSelectsOne(invocation, "watch one experiment, or all without a selector",
                                     "rt watch last"));
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  LiveView view(*client, 1, invocation, "");
  std::optional<QuitKey> key;
  if (view.paints()) key.emplace();
  view.SayItQuits(key.has_value() && key->works());
  if (invocation.words.empty()) {
    if (!view.paints()) return FollowCluster(*client, invocation);
    while (true) {
      RT_RETURN_IF_ERROR(view.ShowCluster());
      if (key->Pressed(kLookEvery)) return kExitOk;
    }
  }
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen,
                      ChooseExperiments(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("watch one experiment, or all without a selector",
                                         "rt watch last");
  const auto quit = [&] { return key.has_value() && key->Pressed(0); };
  RT_ASSIGN_OR_RETURN(Json experiment, WatchExperiment(*client, chosen[0], view, quit));
  return experiment.GetString("state") == "FAILED" ? kExitFailed : kExitOk;
}

}  // namespace rt
