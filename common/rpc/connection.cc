#include "common/rpc/connection.h"

#include <algorithm>

#include "common/run/clock.h"

namespace rt {
namespace {
constexpr Millis kConnectionLookEvery = 100;
}  // namespace

absl::Status AwaitConnection(grpc::Channel& channel, Millis until,
                             const std::function<bool()>& cancelled) {
  while (cancelled == nullptr || !cancelled()) {
    const grpc_connectivity_state state = channel.GetState(true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_TRANSIENT_FAILURE) break;
    const Millis left = until - SteadyClock();
    if (left <= 0) return absl::UnavailableError("it does not answer");
    const auto until_next_look = std::chrono::milliseconds(std::min(left, kConnectionLookEvery));
    channel.WaitForStateChange(state, std::chrono::system_clock::now() + until_next_look);
  }
  return absl::OkStatus();
}

}  // namespace rt
