// Apply's part about slow links: what their events change. Called by Apply only; nothing is decided
// here.
#pragma once

#include "head/core/state.h"

namespace rt {

void ApplySlowLink(State& state, const event::LinkFoundSlow& e, Millis at);
void ApplyClearedLink(State& state, const event::LinkCleared& e);
// The node has left the cluster.
void ForgetLinksOf(State& state, NodeId node);

}  // namespace rt
