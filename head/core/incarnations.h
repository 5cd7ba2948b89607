// Which of a node's daemons is the newest: the numbers that they give themselves.
#pragma once

#include "head/core/state.h"

namespace rt {

// A daemon's incarnation is a time in milliseconds: it may be ahead of the head's clock by so much.
inline constexpr Millis kIncarnationAheadMax = 86'400'000;

// The greatest one that a daemon may have at that time.
inline uint64_t IncarnationMax(Millis now) {
  return static_cast<uint64_t>((now > 0 ? now : 0) + kIncarnationAheadMax);
}

// Of the newest daemon of the node that was heard; 0 when none was, or when a release that did not
// check it journalled an impossible one.
inline uint64_t KnownIncarnation(const State& state, const Node& node) {
  const uint64_t known = node.inventory.incarnation;
  return known > IncarnationMax(state.time) ? 0 : known;
}

}  // namespace rt
