// The address of a Unix socket at a path.
#pragma once

#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"

namespace rt {

// InvalidArgument when the path is longer than an address takes, which is 107 bytes.
absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path);

}  // namespace rt
