// Errors as people and scripts see them, and the exit codes of interface.md.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/invocation.h"

namespace rt {

int ExitCodeOf(const absl::Status& status);
// For standard error: "file:line:column: message", the line, a caret, the hint; or a line of JSON.
std::string RenderError(const absl::Status& status, const Invocation& invocation);

}  // namespace rt
