// Commands and flags that Ray has, or that are announced, and this release lacks: an error says
// what works instead.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

// OK for what is not on the list. `word`: a command such as "exec", or a flag such as "--elastic".
absl::Status NotYetAvailable(std::string_view word);

}  // namespace rt
