// Why a head cannot be reached, in words for people instead of gRPC's. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

// "the connection was refused" for "failed to connect to all addresses; last error: …". A text that
// is not gRPC's own stays as it is.
std::string TransportReason(std::string_view message);

struct AskedHead {
  std::string cluster;          // The name of the context.
  std::string address;          // host:port, or several, with commas.
  std::string local_directory;  // Of a cluster of this machine; empty for others.
};
// Unavailable: who was asked, why there is no answer, and as a hint what to do.
absl::Status Unreachable(const AskedHead& head, std::string_view reason);

}  // namespace rt
