#include "worker/run/launch_body.h"

#include <ctime>

namespace rt::worker {
namespace {

Json Texts(const std::vector<std::string>& texts) {
  Json array = Json::MakeArray();
  for (const std::string& text : texts) array.Append(text);
  return array;
}
std::vector<std::string> TextsFrom(const Json& json, std::string_view key) {
  std::vector<std::string> texts;
  const Json* array = json.Find(key);
  if (array == nullptr || !array->is_array()) return texts;
  for (const Json& text : array->array()) {
    if (text.is_string()) texts.push_back(text.AsString());
  }
  return texts;
}

}  // namespace

Json ToJson(const LaunchBody& body) {
  Json env = Json::MakeObject();
  for (const auto& [name, value] : body.env) env.Set(name, value);
  Json inputs = Json::MakeArray();
  for (const LaunchInput& input : body.inputs) {
    inputs.Append(Json::MakeObject({{"manifest", input.manifest}, {"env", input.env}}));
  }
  return Json::MakeObject({{"argv", Texts(body.argv)},
                           {"env", env},
                           {"bundle", body.bundle},
                           {"cwd", body.cwd},
                           {"inputs", inputs},
                           {"checkpoint", body.checkpoint},
                           {"checkpoint_parts", Texts(body.checkpoint_shards)},
                           {"checkpoint_held", body.checkpoint_on_replicas},
                           {"durable_after", static_cast<int64_t>(body.durable_after)},
                           {"params", body.params},
                           {"gpu_uuids", Texts(body.gpu_uuids)},
                           {"world_size", body.world_size},
                           {"port", body.port},
                           {"keeps_port", body.keeps_port},
                           {"iteration_base", body.iteration_base},
                           {"time_total_base_s", body.time_total_base_s},
                           {"control", body.control},
                           {"name", body.name},
                           {"report_regex", body.report_regex},
                           {"log_patterns", Texts(body.log_patterns)},
                           {"watchdog_factor", body.watchdog_factor},
                           {"watchdog_min", body.watchdog_min},
                           {"watchdog_dump", body.watchdog_dump},
                           {"memory", body.limits.memory},
                           {"cpu_limit", body.limits.cpu},
                           {"token", body.token},
                           {"started_at", body.started_at}});
}

LaunchBody LaunchBodyFrom(const Fence& fence, const Json& json) {
  LaunchBody body{.fence = fence};
  body.argv = TextsFrom(json, "argv");
  if (const Json* env = json.Find("env"); env != nullptr && env->is_object()) {
    for (const auto& [name, value] : env->object()) {
      if (value.is_string()) body.env[name] = value.AsString();
    }
  }
  body.bundle = json.GetString("bundle");
  body.cwd = json.GetString("cwd");
  if (const Json* inputs = json.Find("inputs"); inputs != nullptr && inputs->is_array()) {
    for (const Json& one : inputs->array()) {
      body.inputs.push_back({one.GetString("manifest"), one.GetString("env")});
    }
  }
  body.checkpoint = json.GetString("checkpoint");
  body.checkpoint_shards = TextsFrom(json, "checkpoint_parts");
  body.checkpoint_on_replicas = json.GetBool("checkpoint_held");
  body.durable_after = static_cast<DurableAfter>(json.GetInt("durable_after"));
  body.params = json.GetString("params");
  body.gpu_uuids = TextsFrom(json, "gpu_uuids");
  body.world_size = static_cast<uint32_t>(json.GetInt("world_size", 1));
  body.port = static_cast<uint32_t>(json.GetInt("port"));
  body.keeps_port = json.GetBool("keeps_port");
  body.iteration_base = json.GetDouble("iteration_base");
  body.time_total_base_s = json.GetDouble("time_total_base_s");
  body.control = json.GetString("control");
  body.name = json.GetString("name");
  body.report_regex = json.GetString("report_regex");
  body.log_patterns = TextsFrom(json, "log_patterns");
  body.watchdog_factor = json.GetDouble("watchdog_factor");
  body.watchdog_min = json.GetInt("watchdog_min");
  body.watchdog_dump = json.GetBool("watchdog_dump");
  body.limits = {.memory = json.GetInt("memory"), .cpu = json.GetInt("cpu_limit")};
  body.token = json.GetString("token");
  body.started_at = json.GetInt("started_at");
  return body;
}

}  // namespace rt::worker
