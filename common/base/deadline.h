// Deadlines that are told again and again, each time measured by another clock.
#pragma once

#include <cstdlib>

#include "common/base/limits.h"
#include "common/base/time.h"

namespace rt {

// Whether `next` says what was told as `told` (0: no deadline). A shift of less than
// limits::kDeadlineShift is the clocks'; one that has passed is always now.
inline bool IsSameDeadline(Millis told, Millis next, Millis now) {
  if (told == 0 || next == 0) return told == next;
  if (std::abs(told - next) <= limits::kDeadlineShift) return true;
  return told <= now && next <= now + limits::kDeadlineShift;
}

}  // namespace rt
