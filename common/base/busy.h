// A refusal that passes by itself: whoever is asked has too much to do right now, and the same call
// may be answered after a short pause. Other ResourceExhausted errors (a full disk) do not pass.
#pragma once

#include <string_view>

#include "common/base/status.h"

namespace rt {

inline constexpr std::string_view kTryAgainLater = "try again later";

inline absl::Status BusyError(std::string_view message) {
  return WithHint(absl::ResourceExhaustedError(ToAbsl(message)), kTryAgainLater);
}
inline bool IsBusy(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && HintOf(status) == kTryAgainLater;
}

}  // namespace rt
