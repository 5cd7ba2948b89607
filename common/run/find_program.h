// The programs that this machine has, and where this very one lies.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rt {

// The absolute path of a program in the PATH.
absl::StatusOr<std::string> FindProgram(const std::string& name);
// The directory of this very program: its sisters rt-head and rt-worker are there.
absl::StatusOr<std::string> BinaryDirectory();
// rt-probe: the path in the environment's RT_PROBE, else that in `binaries`. NotFound with a hint
// when it is not there.
absl::StatusOr<std::string> ProbeProgram(const std::string& binaries);

}  // namespace rt
