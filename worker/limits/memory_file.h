// An unnamed file that holds a text, to be read from its start by the process that is given it.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace rt::worker {

// A descriptor that the caller closes. Fails when memory or descriptors are short.
absl::StatusOr<int> MemoryFile(std::string_view text);

}  // namespace rt::worker
