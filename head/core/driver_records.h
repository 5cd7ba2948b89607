// When an experiment's driver has something to read. The head wakes a driver's poll for these
// records, and the answer to the poll holds them (head/service/questions.cc): both ask
// MeaningOf(event).reader, because a record that only one of them knew would be skipped for ever.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// Remembers that the experiment's driver has something to read. Called by Apply only.
void NoteDriverRecord(World& world, const Event& event, uint64_t seq);

}  // namespace rt
