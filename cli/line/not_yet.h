// What interface.md promises and this release lacks: a command or flag of these is an error that says
// what works instead.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace rt {

// OK for what is not on the list. `word`: a command such as "exec", or a flag such as "--elastic".
absl::Status NotYetAvailable(std::string_view word);

}  // namespace rt
