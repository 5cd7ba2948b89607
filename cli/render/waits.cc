#include "cli/render/waits.h"

#include <algorithm>
#include <map>

namespace rt {

std::vector<WaitGroup> GroupWaits(const Json& status, const std::string& prefix) {
  // `waiting` has everything, counted; a head that is older lists the first hundred in `pending`.
  const Json* items = status.Find("waiting");
  if (items == nullptr || !items->is_array()) items = status.Find("pending");
  if (items == nullptr || !items->is_array()) return {};
  std::map<std::string, WaitGroup> by_reason;
  for (const Json& item : items->array()) {
    const std::string id = item.GetString("id");
    if (!id.starts_with(prefix)) continue;
    WaitGroup& group = by_reason[item.GetString("reason")];
    if (group.count == 0) {
      group.first = id;
      group.reason = item.GetString("reason");
      if (const Json* needs = item.Find("needs")) group.needs = *needs;
      if (const Json* since = item.Find("since")) group.since = *since;
    }
    group.count += std::max<int64_t>(1, item.GetInt("count"));
  }
  std::vector<WaitGroup> groups;
  for (auto& [reason, group] : by_reason) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const WaitGroup& a, const WaitGroup& b) {
    return a.count > b.count;
  });
  return groups;
}

std::string WhoWaits(const WaitGroup& group) {
  if (group.count <= 1) return group.first;
  return group.first + " and " + std::to_string(group.count - 1) + " more";
}

}  // namespace rt
