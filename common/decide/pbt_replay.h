// Replays what population based training did with one trial: at recorded times its configuration
// changes. The trial is cloned from itself: it takes its own newest checkpoint, with the next
// configuration, which is what Ray's PopulationBasedTrainingReplay does by pausing it. Pure.
//
// A change waits for a checkpoint of the trial in the store: report one with the row of that time.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& PbtReplay();

}  // namespace rt
