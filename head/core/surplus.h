// The ranks that elastic attempts have beyond their minimum, as capacity for owners that wait, in
// one round of placement (docs/adr/0035). A plan only: ShrinkTo carries out what it says.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "head/core/draft.h"
#include "head/core/places.h"

namespace rt {

class Surplus {
 public:
  explicit Surplus(Draft& draft);

  // Takes the request's capacity from what is free or on its way; where that is not enough,
  // attempts of at most this priority shrink, those with the largest surplus first. nullopt: it
  // cannot fit, and nothing was changed.
  std::optional<std::vector<Member>> Find(const ResourceRequest& wanted,
                                          const std::set<NodeId>& avoided, int priority);
  // The new sizes of those that shrink, since this was asked last.
  std::map<Owner, uint32_t> TakeShrunk() { return std::exchange(shrunk_, {}); }
  // Another owner was placed.
  void NotePlaced(const ResourceRequest& wanted, const std::vector<Member>& members) {
    TakeCapacity(capacities_, wanted, members);
  }

 private:
  using Sizes = std::vector<std::pair<Owner, size_t>>;

  Sizes::iterator Largest(int priority);
  void Return(const Owner& owner, const Attempt& live, size_t size);

  Draft* draft_;
  std::vector<FreeCapacity> capacities_;
  Sizes sizes_;                       // That may shrink.
  std::map<Owner, size_t> returned_;  // Members from here on are counted as free.
  std::map<Owner, uint32_t> shrunk_;
};

// Whether the attempt will end, or has begun to.
bool IsEndingElastic(const World& world, const Owner& owner, const Attempt& live);
// Asks the attempt to continue with fewer ranks. False: it cannot now. In elastic.cc.
bool ShrinkTo(Draft& draft, const Owner& owner, uint32_t ranks);

}  // namespace rt
