// `rt node show`.
#include "cli/commands/common.h"
#include "cli/selector.h"
#include "common/base/status.h"
#include "common/base/strings.h"

namespace rt {

ExitCode RunNodeShow(const Invocation& invocation) {
  RT_ASSIGN_OR_RETURN(auto client, ClientFor(invocation));
  RT_ASSIGN_OR_RETURN(Json list, client->Ask<v1::ClusterService>(
                                     &v1::ClusterService::Stub::ListNodes, v1::Empty()));
  std::vector<uint64_t> known;
  std::string selector = FirstWord(invocation).empty() ? "last" : FirstWord(invocation);
  if (const Json* items = list.Find("items"))
    for (const Json& item : items->array()) {
      known.push_back(static_cast<uint64_t>(item.GetInt("id")));
      if (item.GetString("name") == selector) selector = std::to_string(item.GetInt("id"));
    }
  RT_ASSIGN_OR_RETURN(std::vector<uint64_t> chosen, SelectNumbers(selector, known, "node"));
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

}  // namespace rt
