// Apply's part about slow links: what their events change. Called by Apply only; nothing is decided
// here.
#pragma once

#include "head/core/state.h"

namespace rt {

void ApplySlowLink(State& state, const event::LinkFoundSlow& e, Millis at);
void ApplyClearedLink(State& state, const event::LinkCleared& e);
void ApplyRetriedLink(State& state, const event::LinkRetried& e, Millis at);
// The node has left the cluster.
void ForgetLinksOf(State& state, NodeId node);

}  // namespace rt
