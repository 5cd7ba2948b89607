// The machine's clocks, in milliseconds. The pure parts are told the time instead.
#pragma once

#include "common/base/time.h"

namespace rt {

Millis WallClock();    // Since the Unix epoch. May jump.
Millis SteadyClock();  // Only goes forward; stands still while the machine sleeps.
void SleepFor(Millis span);

}  // namespace rt
