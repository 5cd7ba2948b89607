// A way over the network that carries less than a gang asked for (docs/adr/0044, 0046). Part of
// State.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace rt {

struct SlowLink {
  NodeId node;   // The smaller number of the two.
  NodeId other;  // 0: all others.
  double bus_gbps = 0;
  double asked_gbps = 0;
  Millis at = 0;
  uint32_t tries = 0;   // How often gangs were placed over it to measure it anew,
  Millis tried_at = 0;  // and when the last one was.
  RT_FIELDS(SlowLink, node, other, bus_gbps, asked_gbps, at, tries, tried_at);

  bool is_of_node() const { return other.value == 0; }
  bool Has(NodeId id) const { return id == node || id == other; }
  // A gang that can be placed nowhere else measures it anew from then on. That may cost the gang a
  // start, so the wait doubles with each try.
  Millis retry_at() const {
    constexpr Millis kFirst = 60'000, kMost = 3'600'000;
    return std::max(at, tried_at) + std::min(kFirst << std::min(tries, 20u), kMost);
  }
};

}  // namespace rt
