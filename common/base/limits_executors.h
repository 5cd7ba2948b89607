// Bounds of executors and their sessions (docs/adr/0041).
#pragma once

#include <cstddef>

#include "common/base/time.h"

namespace rt::limits {

// Of one request: an answer and its records stay small. A driver that needs more asks again.
inline constexpr int64_t kExecutorsPerRequest = 1'000;
// That have not ended, of one session: tasks beyond wait for each other, and the state stays small.
inline constexpr size_t kExecutorsPerSession = 10'000;
// Of all sessions together.
inline constexpr size_t kExecutorsMax = 50'000;
// Detached ones of a user: nobody else ends them.
inline constexpr size_t kDetachedPerUser = 1'000;
// What one of them is requested with: it is in the state, and thousands are.
inline constexpr size_t kExecutorSpecBytes = 64u << 10;
// Those that have ended stay known until their sessions have seen that: the newest ones.
inline constexpr size_t kEndedExecutorsKept = 1'000;
// Without a sign of its driver for this long a session is ended. A driver renews it every
// kExecutorWaitMax at most, which leaves time for a restart of its bridge or worker.
inline constexpr Millis kSessionLease = 30'000;
inline constexpr Millis kExecutorWaitMax = 10'000;
// The name of a session.
inline constexpr size_t kSessionNameMax = 64;

}  // namespace rt::limits
