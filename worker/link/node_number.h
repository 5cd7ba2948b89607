// The number of this node, as its certificate has it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace rt::worker {

// `name`: of the identity in the worker's certificate. FailedPrecondition, with the state
// directory, when it is not a node's.
absl::StatusOr<uint64_t> NodeNumber(const std::string& name, const std::string& state_dir);

}  // namespace rt::worker
