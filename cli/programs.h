// The programs that this machine has.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rt {

// The absolute path of a program in the PATH.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace rt
