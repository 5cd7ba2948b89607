// Which heads answer now, asked side by side with one bound for all of them. Starts no head.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/client/home.h"
#include "common/base/time.h"

namespace rt {

inline constexpr Millis kProbeMax = 1'500;  // For all heads together.

// Per name "" when its head answers, else why not: the cluster is not up, the connection was
// refused, and so on. A head answers when a TLS connection with the context's certificates stands.
std::map<std::string, std::string> ProbeHeads(const Home& home,
                                              const std::vector<std::string>& names);

}  // namespace rt
