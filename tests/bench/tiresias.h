// A scheduler without elasticity, against which the replay is checked.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/elastic/replay.h"

namespace rt::bench {

// Tiresias (Gu et al., NSDI 2019) as the artifact of Pollux replays it: two queues by attained
// service, first come first served within each, and jobs of a fixed size. Its published completion
// times show that the replay keeps the time of that simulator.
std::unique_ptr<ReplayScheduler> MakeTiresias(const ReplayRules& rules);

}  // namespace rt::bench
