// The changes that events about gpus make to a node. Called by Apply only.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

// The worker is told until its inventory says that it has heard.
void NoteCleared(Node& node, const event::GpuCleared& e, Millis at);
// Drops the clears that the node's inventory shows to be done: its worker has ended the quarantine
// or begun a later one. The finding of a probe is kept for people to read until a later quarantine.
void NoteHeardClears(Node& node);

// The worker is told until its inventory has a quarantine of that gpu.
void NoteFaulty(Node& node, const event::GpuFaultFound& e);
// Drops the faults of gpus whose quarantine has begun, and of gpus that the node lists no longer.
void NoteHeardFaults(Node& node);

}  // namespace rt
