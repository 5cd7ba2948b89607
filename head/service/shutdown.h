// The end of all that runs: stops all jobs and experiments and waits, bounded, until they have
// ended and the sinks have written them down.
#pragma once

#include "head/service/settings.h"
#include "head/service/waits.h"

namespace rt {

struct StopRules {
  bool only_if_idle = false;  // FailedPrecondition while a job or an experiment is open.
  bool flush_only = false;    // Stops nothing, waits for the sinks.
};
// `done` follows after 20 s at the latest; DeadlineExceeded, which names them, when jobs or
// experiments have not ended then, or the results of experiments are not written down.
void StopEverything(HeadLoop& loop, Waits& waits, const StopRules& rules, StatusDone done);

}  // namespace rt
