// Apply's part about resizes: what their events change. Called by Apply only; the same rules hold:
// nothing is decided here.
#pragma once

#include "head/core/state.h"

namespace rt {

void RequestResize(World& world, const event::AttemptResizeRequested& e, Millis at);
void ForceResize(World& world, const event::AttemptResizeForced& e);
void GiveUpResize(World& world, const event::AttemptResizeGivenUp& e);
void ApplyResized(World& world, const event::AttemptResized& e, Millis at);
// The attempt has ended otherwise, and has returned its capacity: the next one shrinks all the
// same, and does not grow.
void EndResize(World& world, const Owner& owner, Attempt& ended);

}  // namespace rt
