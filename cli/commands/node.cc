// `rt node show`, `rt node logs`.
#include "cli/commands/common.h"
#include "cli/follow.h"
#include "cli/selector.h"
#include "common/base/status.h"

namespace rt {
namespace {

// A node's name is a selector too.
absl::StatusOr<std::vector<uint64_t>> ChooseNodes(HeadClient& client, std::string selector) {
  RT_ASSIGN_OR_RETURN(Json list, client.Ask<v1::ClusterService>(
                                     &v1::ClusterService::Stub::ListNodes, v1::Empty()));
  std::vector<uint64_t> known;
  bool name = selector != "last" && selector != "all" &&
              selector.find_first_not_of("0123456789,-") != std::string::npos;
  bool found = false;
  if (selector.empty()) selector = "last";
  if (const Json* items = list.Find("items"))
    for (const Json& item : items->array()) {
      known.push_back(static_cast<uint64_t>(item.GetInt("id")));
      if (item.GetString("name") != selector) continue;
      selector = std::to_string(item.GetInt("id"));
      found = true;
    }
  if (name && !found) return NotFound("there is no node '" + selector + "'");
  return SelectNumbers(selector, known, "node");
}

}  // namespace

ExitCode RunNodeShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, ChooseNodes(*client, SelectorOf(invocation)));
  std::vector<Json> items;
  for (uint64_t id : chosen) {
    v1::GetNodeRequest request;
    request.set_name_or_id(std::to_string(id));
    RT_ASSIGN_OR_RETURN(Json item, client->Ask<v1::ClusterService>(
                                       &v1::ClusterService::Stub::GetNode, request));
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
