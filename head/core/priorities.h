// Priorities: who waits for nodes and could have them, were trials of lower priority not there, has
// so few of them as possible save and end. They wait then like everybody else, behind it. What is
// freed for one is kept from those behind it, node by node.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "head/core/draft.h"
#include "head/core/places.h"

namespace rt {

// For one round of placement.
class PreemptionPlan {
 public:
  explicit PreemptionPlan(Draft& draft) : draft_(draft) {}

  // No trial of the queue has room now: those whose priority is above that of some who run claim
  // it, in their turn. Emits PreemptionRequested for who is to leave.
  void PlanFor(const ResourceRequest& wanted, const ReadyQueue& queue);
  // The same for one of them; once in a round.
  bool PlanForOwner(const ResourceRequest& wanted, const Owner& owner);
  // Somebody was placed meanwhile.
  void NotePlaced(const ResourceRequest& wanted, const std::vector<Member>& members);
  // Nodes that are kept from who has this priority.
  std::set<NodeId> ReservedFrom(int priority) const;

 private:
  struct Runner {
    AttemptId id;
    int priority = 0;
    Millis placed_at = 0;
    const Attempt* attempt = nullptr;
  };
  void CollectRunning();
  bool Preempt(const Owner& owner, const ResourceRequest& wanted);
  // Who is to leave so that it fits: none where it fits already; nullopt when that is not enough.
  std::optional<std::vector<Runner>> FindVictims(const ResourceRequest& wanted, int priority,
                                                 const std::set<NodeId>& avoided) const;

  Draft& draft_;
  bool collected_ = false;
  std::vector<FreeCapacity> capacities_;  // Once who was asked to leave has left.
  std::vector<Runner> runners_;  // Those who were not: the lowest first, then the youngest.
  std::map<NodeId, int> reserved_;  // For whom.
  std::set<Owner> requested_;
};

// Whether a trial of lower priority runs.
bool RunsBelow(const World& world, int priority);
// "experiment 7 of priority 10": an experiment whose trials wait and go first; empty: none.
std::string QueuedBefore(const World& world, const Owner& owner);
// Trials of lower priority that were asked to save and end.
size_t CountEndingFor(const World& world, const Owner& owner);

}  // namespace rt
