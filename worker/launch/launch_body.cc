#include "worker/launch/launch_body.h"

#include "common/wire/json_fields.h"

namespace rt::worker {

Json ToJson(const LaunchBody& body) {
  Json json = codec::ToJson<LaunchSpec>(body);
  json.Set("token", body.token);
  json.Set("started_at", body.started_at);
  return json;
}

LaunchBody LaunchBodyFrom(const Fence& fence, const Json& json) {
  LaunchBody body;
  codec::FromJson<LaunchSpec>(json, body);
  body.fence = fence;
  body.token = json.GetString("token");
  body.started_at = json.GetInt("started_at");
  // As 0.1 wrote them.
  body.watchdog_min = json.GetInt("watchdog_min", body.watchdog_min);
  body.resources.memory = json.GetInt("memory", body.resources.memory);
  if (const int64_t cpu = json.GetInt("cpu_limit"); cpu > 0) {
    body.limit_cpu = true;
    body.resources.cpu = cpu;
  }
  return body;
}

}  // namespace rt::worker
