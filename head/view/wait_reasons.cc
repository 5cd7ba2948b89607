#include "head/view/wait_reasons.h"

#include "head/core/freeze.h"
#include "head/core/owner_policy.h"
#include "head/view/why.h"

namespace rt {

Waiting WaitReasons::Of(const Owner& owner) {
  // What else keeps an owner from running is its own, and found without a look at the nodes.
  const bool is_queued = core_.world.index.ready_order.contains(owner);
  if (!is_queued || IsFrozen(core_.world, owner)) return WhyWaiting(core_, owner, now_);
  const bool has_priority = ExperimentOf(core_.world, owner) != nullptr;
  const uint64_t group = has_priority ? owner.group : 0;
  Key key{RequestOf(core_.world, owner), owner.kind, group,
          FindRuns(core_.world.state, owner)->excluded};
  auto found = known_.find(key);
  if (found == known_.end())
    found = known_.emplace(std::move(key), WhyWaiting(core_, owner, now_)).first;
  return found->second;
}

}  // namespace rt
