// A way over the network that carries less than a gang asked for (docs/adr/0044). Part of State.
#pragma once

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
  RT_FIELDS(SlowLink, node, other, bus_gbps, asked_gbps, at);

  bool is_of_node() const { return other.value == 0; }
  bool Has(NodeId id) const { return id == node || id == other; }
};

}  // namespace rt
