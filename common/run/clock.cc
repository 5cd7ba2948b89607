#include "common/run/clock.h"

#include <chrono>
#include <thread>

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
void SleepFor(Millis span) { std::this_thread::sleep_for(std::chrono::milliseconds(span)); }

}  // namespace rt
