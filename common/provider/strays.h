// Processes that daemons of a local cluster have started, found by their arguments and environment.
#pragma once

#include <string>

namespace rt {

// Kills what the daemons below `directory` started, and the daemons themselves.
void KillStrays(const std::string& directory);

}  // namespace rt
