// The newest record that an experiment's driver reads. The head wakes a driver's poll for these
// records, and the answer to the poll contains them (head/service/questions.cc). Both ask
// MeaningOf(event).reader, because a record that only one of them knew would never be read.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// Notes that the experiment's driver has a record to read. Called by Apply only.
void NoteDriverRecord(World& world, const Event& event, uint64_t seq);

}  // namespace rt
