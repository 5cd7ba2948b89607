// What the events of gpus change. Called by Apply only.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// The worker is told until its inventory says that it has heard.
void NoteCleared(Node& node, const event::GpuCleared& e, Millis at);
// What the worker has heard of: the quarantine is over there, or a later one has begun. What a
// probe found is kept until a later one begins, for people to read.
void NoteHeardClears(Node& node);

}  // namespace rt
