// `rt bridge`: JSON lines on standard input and output, for drivers in other languages. The bridge
// holds the certificate, the driver does not. Requests {"id":n,"op":…}; answers
// {"id":n,"ok":true,"result":…} or {"id":n,"ok":false,"error":{"code","message","hint"}}, in the
// order in which they are ready: a thread per request, at most kRequestsMax at once, so that waits
// block nothing else.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "cli/client/head_client.h"

namespace rt {

inline constexpr int kBridgeRequestsMax = 64;
inline constexpr int kBridgeWaitsMax = 48;        // Of them; the rest is for everything else.
inline constexpr size_t kBridgeLineMax = 64u << 20;
inline constexpr Millis kBridgeHoldMax = 30'000;

// SIGTERM and SIGINT, before the first thread starts; ServeBridge takes them as the end of input.
void BlockBridgeSignals();
// Serves until the end of input; calls in flight are then cancelled. `tick` runs twice a second on
// this thread.
absl::Status ServeBridge(HeadClient& client, const std::function<void()>& tick);
// The line that answers the request with that id; null: it had none.
Json BridgeAnswer(const Json& id, const absl::StatusOr<Json>& result);
// The answer to the first request when no head can be reached. It has no id, so that the driver
// raises it as an error of the connection.
Json BridgeRefusal(const absl::Status& status);

// One request's answer; used by ServeBridge from many threads.
absl::StatusOr<Json> Operate(HeadClient& client, const Json& request);
bool IsWait(const Json& request);

}  // namespace rt
