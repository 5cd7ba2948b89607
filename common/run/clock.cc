#include "common/run/clock.h"

#include <chrono>

namespace rt {
namespace {

template <typename Clock>
Millis Now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

Millis WallClock() { return Now<std::chrono::system_clock>(); }
Millis SteadyClock() { return Now<std::chrono::steady_clock>(); }

}  // namespace rt
