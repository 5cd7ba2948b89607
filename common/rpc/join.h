// A join token exchanged for a certificate: what `rt context add` and the first start of a worker
// do. The key is made here and never leaves this machine. Blocks.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/base/time.h"
#include "common/rpc/identity.h"

namespace rt {

struct JoinAsk {
  std::string head;     // host:port, or several with commas.
  std::string token;    // Its text.
  std::string kind;     // "user" or "node": a token for the other one is refused, and not spent.
  std::string name;     // Asked for; empty: that of the token, else `default_name`.
  std::string default_name;
  Millis away_max = 0;  // How long a head that cannot be reached is waited for.
};
struct Joined {
  Credentials credentials;
  Identity identity;
};
// Unauthenticated: the token has expired, by this clock or the head's, or another cluster's head
// answers there. PermissionDenied: it was used or revoked, or is for another name or kind.
// Unavailable, with gRPC's message: the head cannot be reached; the token can still be used.
absl::StatusOr<Joined> JoinCluster(const JoinAsk& ask);

}  // namespace rt
