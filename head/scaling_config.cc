#include "head/scaling_config.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr int64_t kWorkersMax = 100'000;
const std::vector<std::string> kHookNames = {"scale_up", "scale_down", "node_ready", "preempted"};

absl::StatusOr<PoolSpec> ReadPool(const Json& json) {
  RT_RETURN_IF_ERROR(CheckKeys(
      json,
      {"name", "resources", "min_workers", "max_workers", "idle_timeout_s", "upscaling_speed"},
      "pools"));
  PoolSpec pool{.name = json.GetString("name")};
  if (pool.name.empty()) return Invalid("a pool needs a name");
  RT_ASSIGN_OR_RETURN(pool.each, ParseResourcesFlag(json.GetString("resources")));
  const int64_t least = json.GetInt("min_workers"), most = json.GetInt("max_workers");
  if (least < 0 || most < least || most > kWorkersMax)
    return Invalid("pools/" + pool.name + ": min_workers and max_workers must be whole numbers, " +
                   "0 or more, and max_workers not below min_workers");
  pool.min_workers = static_cast<uint32_t>(least);
  pool.max_workers = static_cast<uint32_t>(most);
  const double idle_s = json.GetDouble("idle_timeout_s", 300);
  pool.upscaling_speed = json.GetDouble("upscaling_speed", 1);
  if (!(idle_s >= 0 && idle_s < 1e9) || !(pool.upscaling_speed >= 0))
    return Invalid("pools/" + pool.name + ": idle_timeout_s and upscaling_speed must be 0 or more");
  pool.idle_timeout = static_cast<Millis>(idle_s * 1'000);
  return pool;
}

absl::Status ReadHooks(const Json& json, ScalingHooks& hooks) {
  RT_RETURN_IF_ERROR(CheckKeys(json, {"hooks", "hook_timeout_s"}, "autoscaling"));
  const double timeout_s = json.GetDouble("hook_timeout_s", 30);
  if (!(timeout_s > 0 && timeout_s <= 86'400))
    return Invalid("autoscaling/hook_timeout_s must be above 0, and at most a day");
  hooks.timeout = static_cast<Millis>(timeout_s * 1'000);
  const Json* commands = json.Find("hooks");
  if (commands == nullptr || commands->is_null()) return absl::OkStatus();
  RT_RETURN_IF_ERROR(CheckKeys(*commands, kHookNames, "autoscaling/hooks"));
  for (const auto& [name, argv] : commands->object()) {
    const std::string path = "autoscaling/hooks/" + name;
    if (!argv.is_array() || argv.array().empty())
      return Invalid(path + " must be a list: the program and its arguments");
    for (const Json& argument : argv.array()) {
      if (!argument.is_string()) return Invalid(path + " must be a list of texts");
      hooks.commands[name].push_back(argument.AsString());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadScaling(const Json& json, ScalingConfig& config) {
  if (const Json* pools = json.Find("pools"); pools != nullptr && !pools->is_null()) {
    if (!pools->is_array()) return Invalid("pools must be a list");
    for (const Json& item : pools->array()) {
      RT_ASSIGN_OR_RETURN(PoolSpec pool, ReadPool(item));
      for (const PoolSpec& other : config.pools)
        if (other.name == pool.name) return Invalid("two pools are called '" + pool.name + "'");
      config.pools.push_back(std::move(pool));
    }
  }
  if (const Json* most = json.Find("max_workers"); most != nullptr && !most->is_null()) {
    const int64_t count = json.GetInt("max_workers", -1);
    if (count < 0 || count > kWorkersMax)
      return Invalid("max_workers must be a whole number from 0 to " + std::to_string(kWorkersMax));
    config.max_workers = static_cast<uint32_t>(count);
  }
  const Json* autoscaling = json.Find("autoscaling");
  if (autoscaling == nullptr || autoscaling->is_null()) return absl::OkStatus();
  return ReadHooks(*autoscaling, config.hooks);
}

}  // namespace rt
