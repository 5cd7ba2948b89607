// Replays what population based training did with one trial: at recorded times its configuration
// changes. The trial is cloned from itself: it takes its own newest checkpoint, with the next
// configuration, which is what Ray's PopulationBasedTrainingReplay does by pausing it. Pure.
//
// The trial is paused at each of these times, which takes checkpoints: one without any keeps its
// configuration.
#pragma once

#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& PbtReplay();

}  // namespace rt
