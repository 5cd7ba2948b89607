// Why owners wait, for a list of many of them. The trials of one experiment, or the jobs, that ask
// for the same and avoid the same nodes wait for the same reason: the nodes are looked at once for
// all of them. For one read model, on the core thread.
#pragma once

#include <map>
#include <set>
#include <tuple>

#include "head/core/draft.h"

namespace rt {

class WaitReasons {
 public:
  WaitReasons(const Core& core, Millis now) : core_(core), now_(now) {}
  // As WhyWaiting.
  Waiting Of(const Owner& owner);

 private:
  using Key = std::tuple<ResourceRequest, Owner::Kind, uint64_t, std::set<NodeId>>;

  const Core& core_;
  const Millis now_;
  std::map<Key, Waiting> known_;
};

}  // namespace rt
