// `rt node show`, `rt node logs`.
#include "cli/commands/common.h"
#include "cli/follow.h"
#include "common/base/status.h"

namespace rt {
ExitCode RunNodeShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseNodes(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    RT_ASSIGN_OR_RETURN(Json item, GetNode(*client, id));
    items.push_back(std::move(item));
  }
  return PrintItems(invocation, Noun::kNode, std::move(items));
}

ExitCode RunNodeLogs(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseNodes(*client, SelectorOf(invocation)));
  if (chosen.size() != 1) return Invalid("logs are of one node", "rt node logs worker-1");
  std::atomic<bool> finished = !invocation.follow;
  RT_RETURN_IF_ERROR(FollowLog(*client, {.node = {chosen[0]},
                                         .stream = "stdout",
                                         .follow = invocation.follow,
                                         .tail_lines = invocation.tail,
                                         .fd = 1}, finished));
  return kExitOk;
}

}  // namespace rt
