// Bounds of nodes by demand, with their reasons: a part of limits.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/time.h"

namespace rt::limits {

// Of a pool, as many nodes as the check of a request looks at: more are never needed by one gang.
inline constexpr uint32_t kPlannedNodesMax = 1'024;
// Machines that one call asks a provider for: EC2 and others take more, but what fails, fails for
// all of a call.
inline constexpr uint32_t kMachinesPerRequest = 100;
// A machine whose node has not joined by then is released: its join token has expired.
inline constexpr Millis kMachineJoinMax = 900'000;
// A machine whose node was lost comes back by then, or is released: a reboot takes less.
inline constexpr Millis kMachineLostMax = 300'000;
// Between two attempts to get machines of a pool: doubled from the first to the last. A request
// whose answer is missing may have made machines, and is looked after sooner.
inline constexpr Millis kMachineRetryFirst = 5'000;
inline constexpr Millis kMachineRetryMax = 300'000;
inline constexpr Millis kMachineLookFirst = 500;
inline constexpr Millis kMachineLookMax = 60'000;
// Between two looks at what the provider has: a machine that vanished without a word is found by
// its node's silence long before that.
inline constexpr Millis kMachineListEvery = 30'000;
// Between two comparisons of the provider's machines with the state.
inline constexpr Millis kReconcileEvery = 100;
// Of autoscaling.hooks: commands at a time, those that wait, and the bytes kept of what one says.
inline constexpr size_t kHooksQueuedMax = 1'024;
inline constexpr size_t kHookOutputMax = 4'096;

}  // namespace rt::limits
