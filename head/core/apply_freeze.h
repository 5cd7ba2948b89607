// Apply's part about freezes: what their events change. Called by Apply only; the same rules hold:
// nothing is decided here.
#pragma once

#include <vector>

#include "head/core/state.h"

namespace rt {

void RequestFreeze(World& world, const event::AttemptFreezeRequested& e, Millis at);
void ApplyFrozen(World& world, const event::AttemptFrozen& e, Millis at);
void ApplyThawed(World& world, const event::AttemptThawed& e, Millis at);
void GiveUpFreeze(World& world, const event::AttemptFreezeGivenUp& e);
// Those with a live attempt, frozen ones included.
std::vector<Trial*> TrialsWithAttempts(const World& world, Experiment& experiment);
// The attempt has ended, and has returned what it held.
void EndFreeze(Attempt& ended, Millis at);

}  // namespace rt
