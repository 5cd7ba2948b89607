// First in, first out: every trial runs to its own end.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& Fifo();

}  // namespace rt
