// The facts about slow ways over the network (docs/adr/0044). Part of events.h.
#pragma once

#include "common/base/fields.h"
#include "common/base/ids.h"

namespace rt::event {

// The preflight of a gang found that a link carries less than a gang asked for: that between two
// nodes, or, with `other` 0, that between the node and all others. It replaces what was known of
// the link. Gangs that ask for more than it carries are not placed over it.
struct LinkFoundSlow {
  NodeId node;            // The smaller number of the two.
  NodeId other;           // 0: all others.
  double bus_gbps = 0;    // As measured.
  double asked_gbps = 0;  // More than bus_gbps. A preflight that was well leaves it as it was.
  AttemptId attempt;      // Whose preflight it was.
  RT_FIELDS(LinkFoundSlow, node, other, bus_gbps, asked_gbps, attempt);
};
// The link is slow no more: a person says so, or the preflight of a gang that uses it was well.
struct LinkCleared {
  NodeId node;
  NodeId other;
  double bus_gbps = 0;  // What that preflight measured, which is all that was asked for,
  AttemptId attempt;    // and whose it was; no owner: a person says so.
  RT_FIELDS(LinkCleared, node, other, bus_gbps, attempt);
};
// A gang that can be placed nowhere else is being placed over the slow link, to measure it anew.
// No other one is for twice as long as before (SlowLink::retry_at).
struct LinkRetried {
  NodeId node;
  NodeId other;
  AttemptId attempt;
  RT_FIELDS(LinkRetried, node, other, attempt);
};

}  // namespace rt::event
