// How long a test waits for what must come. Tests run side by side, with sanitizers, on machines
// that do other work as well.
#pragma once

#include <chrono>

namespace rt {

inline constexpr std::chrono::seconds kPatience{120};

}  // namespace rt
