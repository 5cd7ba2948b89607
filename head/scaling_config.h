// The parts of the head's configuration that say how the cluster grows and shrinks:
//   "pools": [{"name": "worker", "resources": "cpu=2", "min_workers": 0, "max_workers": 4,
//              "idle_timeout_s": 300, "upscaling_speed": 1}],
//   "max_workers": 8,    of all pools together; left out: no bound but theirs
//   "autoscaling": {"hooks": {"scale_up": ["/usr/local/bin/notify", "up"]}, "hook_timeout_s": 30}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/json.h"
#include "common/spec/pool.h"
#include "head/service/scaling_hooks.h"

namespace rt {

struct ScalingConfig {
  std::vector<PoolSpec> pools;  // As the configuration says; their gpus may be found by the nodes.
  std::optional<uint32_t> max_workers;
  ScalingHooks hooks;
};
// `json`: the whole configuration.
absl::Status ReadScaling(const Json& json, ScalingConfig& config);

}  // namespace rt
