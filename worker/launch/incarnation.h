// Which daemon process of a node speaks: a number that grows with each of them, so that the head
// can tell a late word of an older one. Kept in the state directory; should it get lost there, the
// wall clock takes over from where it must have been.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace rt::worker {

// Greater than `above` and than what any earlier call for this directory gave; durable when it
// returns. The caller holds the directory's lock.
absl::StatusOr<uint64_t> NextIncarnation(const std::string& state_dir, uint64_t above = 0);

}  // namespace rt::worker
