#include "head/core/surplus.h"

#include <algorithm>

#include "head/core/elastic.h"
#include "head/core/owner_policy.h"
#include "head/core/priorities.h"

namespace rt {

bool IsEndingElastic(const World& world, const Owner& owner, const Attempt& live) {
  return live.suspending || !live.exits.empty() || live.resize.forced || live.replaced ||
         PolicyOf(owner).is_stopping(world.state, owner);
}

Surplus::Surplus(Draft& draft) : draft_(&draft), capacities_(CapacitiesNow(draft.core, draft.now)) {
  const World& world = draft.core.world;
  for (const Owner& owner : ElasticOwners(world)) {
    const Attempt& live = *FindRuns(world.state, owner)->live();
    const bool shrinks = live.resize.is_pending() && !live.is_growing();
    if (shrinks) {
      Return(owner, live, live.resize.members.size());  // On its way already.
    } else if (!IsEndingElastic(world, owner, live)) {
      sizes_.emplace_back(owner, std::max(live.members.size(), live.resize.members.size()));
    }
  }
}

std::optional<std::vector<Member>> Surplus::Find(const ResourceRequest& wanted,
                                                 const std::set<NodeId>& avoided, int priority) {
  if (auto members = PutInto(capacities_, wanted, avoided)) return members;
  const World& world = draft_->core.world;
  Surplus other = *this;
  std::set<Owner> shrunk;
  while (true) {
    const auto next = other.Largest(priority);
    if (next == other.sizes_.end()) return std::nullopt;
    const Attempt& live = *FindRuns(world.state, next->first)->live();
    if (next->second > live.members.size()) {  // A growth under way is given up first.
      ReturnCapacity(other.capacities_, RequestOf(world, next->first), live.Claims());
      next->second = live.members.size();
    } else {
      other.Return(next->first, live, --next->second);
    }
    shrunk.insert(next->first);
    auto members = PutInto(other.capacities_, wanted, avoided);
    if (!members.has_value()) continue;
    for (const auto& [owner, size] : other.sizes_)
      if (shrunk.contains(owner)) other.shrunk_[owner] = static_cast<uint32_t>(size);
    *this = std::move(other);
    return members;
  }
}

// The attempt with the most ranks beyond its minimum; of several, the one that arrived last.
Surplus::Sizes::iterator Surplus::Largest(int priority) {
  auto best = sizes_.end();
  size_t most = 1;
  for (auto one = sizes_.begin(); one != sizes_.end(); ++one) {
    const size_t least = RequestOf(draft_->core.world, one->first).ranks_min;
    const bool may = PriorityOf(draft_->core.world, one->first) <= priority;
    if (!may || one->second < least + most) continue;
    most = one->second - least;
    best = one;
  }
  return best;
}

// Counts the capacity of the members from `size` on as free.
void Surplus::Return(const Owner& owner, const Attempt& live, size_t size) {
  if (size >= live.members.size()) return;
  const size_t until = returned_.contains(owner) ? returned_.at(owner) : live.members.size();
  const std::vector<Member> freed(live.members.begin() + static_cast<std::ptrdiff_t>(size),
                                  live.members.begin() + static_cast<std::ptrdiff_t>(until));
  ReturnCapacity(capacities_, RequestOf(draft_->core.world, owner), freed);
  returned_[owner] = size;
}

}  // namespace rt
