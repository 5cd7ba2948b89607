// What waits for capacity, for Status: bounded in number and in bytes, because requests of many
// bundles are large and Status is one message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/json.h"
#include "head/core/core.h"
#include "head/view/view.h"
#include "head/view/wait_reasons.h"

namespace rt {

// What waits: the first hundred one by one, and counted by experiment (or job) and needs.
struct WaitLists {
  Json pending = Json::MakeArray(), waiting = Json::MakeArray();
  uint64_t left_out = 0;  // Of what waits, beyond limits::kStatusWaitingMax of these counts.
  size_t pending_bytes = 0, waiting_bytes = 0;  // As text: requests of many bundles are large.
};
WaitLists WaitsOf(const Core& core, const HeadFacts& facts, WaitReasons& reasons);

}  // namespace rt
