// The words of a line as a shell would split it, quotes and backslashes included and nothing else:
// no variables, no globs. For `rt submit --args`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rt {
// InvalidArgument for an open quote.
absl::StatusOr<std::vector<std::string>> SplitShellWords(std::string_view line);
}  // namespace rt
