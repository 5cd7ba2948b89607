// The codes of absl::Status by the names that driver operations answer with.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace rt {

// UNKNOWN for a name that is none, and for OK: an error that came by name stays an error.
inline absl::StatusCode ErrorCodeNamed(std::string_view name) {
  constexpr int kLast = static_cast<int>(absl::StatusCode::kUnauthenticated);
  for (int i = 1; i <= kLast; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace rt
