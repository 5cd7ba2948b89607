// Commands and flags that users of such tools expect and that this release lacks: each is an error
// that says what works instead.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

// OK for what is not on the list. `word`: a command such as "exec", or a flag such as "--elastic".
absl::Status NotYetAvailable(std::string_view word);

}  // namespace rt
