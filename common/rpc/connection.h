// The first moments of a channel: a call would wait for its connection as long as it may last.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/status/status.h"
#include "common/base/time.h"

namespace rt {

// Until the channel is connected, has failed to connect (a call on it fails at once and says why),
// or `cancelled` says so. Unavailable when nothing of that happened by `until` (SteadyClock).
absl::Status AwaitConnection(grpc::Channel& channel, Millis until,
                             const std::function<bool()>& cancelled = nullptr);

}  // namespace rt
