#include "common/yaml/unused_keys.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "common/base/strings.h"
#include "common/yaml/node_fields.h"

namespace rt {
namespace {

using Names = std::set<std::string_view>;

// Keys that a cluster on one machine uses. The start commands have a warning of their own.
const Names kUsed = {"cluster_name",
                     "max_workers",
                     "min_workers",
                     "provider",
                     "head_node_type",
                     "available_node_types",
                     "checkpoint_store",
                     "journal",
                     "autoscaling",
                     "elastic",
                     "head_start_ray_commands",
                     "worker_start_ray_commands"};
const Names kUsedByDemand = {"idle_timeout_minutes", "upscaling_speed"};
const Names kUsedOfType = {"resources", "min_workers", "max_workers"};

bool IsZero(const Json::Member& amount) {
  return amount.second.is_number() && amount.second.AsDouble() == 0;
}

// Also {CPU: 0}: on this machine no program runs on the head anyway.
bool SetsNothing(const Json& value) {
  if (value.is_object()) return std::all_of(value.object().begin(), value.object().end(), IsZero);
  if (value.is_array()) return value.array().empty();
  if (value.is_string()) return value.AsString().empty();
  return value.is_null() || (value.is_bool() && !value.AsBool());
}

void AddUnused(const Json& map, const std::string& path, const Names& used,
               std::vector<std::string>& keys) {
  if (!map.is_object()) return;
  for (const auto& [key, value] : map.object())
    if (!used.contains(key) && !SetsNothing(value))
      keys.push_back(path.empty() ? key : Below(path, key));
}

}  // namespace

std::vector<std::string> UnusedKeysOfLocal(const Json& cluster, const UnusedKeysOptions& options) {
  std::vector<std::string> keys;
  Names top = kUsed, of_type = kUsedOfType;
  if (options.workers_by_demand) {
    top.insert(kUsedByDemand.begin(), kUsedByDemand.end());
    of_type.insert("idle_timeout_s");
  }
  AddUnused(cluster, "", top, keys);
  if (const Json* provider = cluster.Find("provider"))
    AddUnused(*provider, "provider", {"type"}, keys);
  const Json* types = cluster.Find("available_node_types");
  if (types == nullptr || !types->is_object()) return keys;
  for (const auto& [name, type] : types->object()) {
    const std::string path = Below("available_node_types", name);
    if (name == options.worker_type) AddUnused(type, path, of_type, keys);
    else if (name != cluster.GetString("head_node_type")) keys.push_back(path);
    else AddUnused(type, path, {"min_workers", "max_workers"}, keys);
  }
  return keys;
}

std::string UnusedKeysWarning(const std::vector<std::string>& keys) {
  if (keys.empty()) return "";
  const bool scales = std::any_of(keys.begin(), keys.end(), [](const std::string& key) {
    return kUsedByDemand.contains(key) || key.ends_with("/idle_timeout_s");
  });
  return Join(keys, ", ") + (keys.size() == 1 ? " has" : " have") +
         " no effect with provider {type: local}: all programs run on this machine as it is" +
         (scales ? ", and workers come and go only if min_workers is below max_workers" : "");
}

}  // namespace rt
