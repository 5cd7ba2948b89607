// A join token made into a person's credentials.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/client/home.h"

namespace rt {
// Asks the head at `address` (host:port) to sign a new key under the token's right. Unauthenticated
// when the token has expired, PermissionDenied when it was used or revoked. Blocks up to 20 s.
absl::StatusOr<Context> RedeemToken(const std::string& token, const std::string& address,
                                    const std::string& name);
}  // namespace rt
