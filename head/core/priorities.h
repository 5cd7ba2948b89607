// Preemption: a waiting trial that would fit without running trials of lower priority causes as few
// of them as possible to save and end. They then wait in the queue behind it. Where it is enough
// that elastic attempts shrink, none ends. Capacity freed this way is reserved, per node, for the
// higher-priority trial.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "head/core/draft.h"
#include "head/core/places.h"
#include "head/core/surplus.h"

namespace rt {

// For one round of placement.
class PreemptionPlan {
 public:
  explicit PreemptionPlan(Draft& draft) : draft_(draft) {}

  // No trial of the queue fits now. In queue order, each whose priority is above that of a running
  // trial preempts: emits PreemptionRequested for the trials that have to end.
  void PlanFor(const ResourceRequest& wanted, const ReadyQueue& queue);
  // The same for one owner, once per round.
  bool PlanForOwner(const ResourceRequest& wanted, const Owner& owner);
  // An attempt was placed meanwhile.
  void NotePlaced(const ResourceRequest& wanted, const std::vector<Member>& members);
  // Nodes reserved for priorities above this one.
  std::set<NodeId> ReservedFrom(int priority) const;

 private:
  struct Runner {
    AttemptId id;
    int priority = 0;
    Millis placed_at = 0;
    const Attempt* attempt = nullptr;
  };
  bool TakeSurplus(const Owner& owner, const ResourceRequest& wanted);
  void Reserve(const std::vector<Member>& members, int priority);
  void CollectRunning();
  bool Preempt(const Owner& owner, const ResourceRequest& wanted);
  bool FitsBesideFrozen(const Owner& owner, const ResourceRequest& wanted,
                        const std::vector<Runner>& ending, const std::set<NodeId>& avoided) const;
  // The attempts that have to end so that the request fits: empty when it fits already, nullopt
  // when it does not fit without all of them either.
  std::optional<std::vector<Member>> Put(const Owner& owner, const ResourceRequest& wanted,
                                         std::vector<FreeCapacity>& capacities,
                                         const std::set<NodeId>& avoided) const;
  std::optional<std::vector<Runner>> FindVictims(const Owner& owner, const ResourceRequest& wanted,
                                                 const std::set<NodeId>& avoided) const;

  Draft& draft_;
  std::optional<Surplus> surplus_;  // Once it was looked at.
  bool collected_ = false;
  std::vector<FreeCapacity> capacities_;  // Once the preempted attempts have ended.
  std::vector<Runner> runners_;           // Not preempted: lowest priority first, then youngest.
  std::map<NodeId, int> reserved_;        // The priority that each is reserved for.
  std::set<Owner> requested_;
};

// Whether a trial of lower priority runs.
bool RunsBelow(const World& world, int priority);
// "experiment 7 of priority 10": an experiment with waiting trials that go first; empty: none.
std::string QueuedBefore(const World& world, const Owner& owner);
// Trials of lower priority that were asked to save and end.
size_t CountEndingFor(const World& world, const Owner& owner);

}  // namespace rt
