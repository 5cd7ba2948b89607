// A secret that lies where others may read it: AES-256-GCM under a key made by scrypt from a
// passphrase or from the bytes of a key file. Thread-safe. Text: "rtseal1." and base64.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rt {

std::string SealSecret(std::string_view secret, std::string_view passphrase);
// PermissionDenied when the passphrase is another, or the text was altered.
absl::StatusOr<std::string> OpenSecret(std::string_view sealed, std::string_view passphrase);

}  // namespace rt
