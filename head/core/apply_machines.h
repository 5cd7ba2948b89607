// What the events of machines change. Called by Apply only.
#pragma once

#include "head/core/events.h"
#include "head/core/state.h"

namespace rt {

void AddMachines(State& state, const event::MachinesRequested& e, Millis at);
void ConfirmMachines(State& state, const event::MachinesCreated& e, Millis at);
void FailMachines(State& state, const event::MachinesFailed& e);
void ReleaseMachine(State& state, const event::MachineReleased& e, Millis at);
void NoteGone(World& world, const event::NodeGone& e);
// While more than kGoneNodesKept nodes have left the cluster, forgets the one that left first. One
// that a machine or a replica still names stays.
void DropOldestGone(World& world);
void NoteRequested(State& state, const event::ResourcesRequested& e, Millis at);
void NoteJoined(State& state, const event::NodeJoined& e);

}  // namespace rt
