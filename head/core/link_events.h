// The facts about slow ways over the network (docs/adr/0044). Part of events.h.
#pragma once

#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt::event {

// The preflight of a gang found that a link carries less than the gang asked for: that between two
// nodes, or, with `other` 0, that between the node and all others. It replaces what was known of
// the link. Gangs that ask for more than it carries are not placed over it.
struct LinkFoundSlow {
  NodeId node;            // The smaller number of the two.
  NodeId other;           // 0: all others.
  double bus_gbps = 0;    // As measured.
  double asked_gbps = 0;  // Above it.
  AttemptId attempt;      // Whose preflight it was.
  RT_FIELDS(LinkFoundSlow, node, other, bus_gbps, asked_gbps, attempt);
};
// A person says that the link is repaired.
struct LinkCleared {
  NodeId node;
  NodeId other;
  RT_FIELDS(LinkCleared, node, other);
};

}  // namespace rt::event
