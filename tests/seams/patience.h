// A scheduler for tests: at one point of time it pauses the trials that are not the best so far.
// It resumes one of them whenever a trial ends.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& Patience();

}  // namespace rt
