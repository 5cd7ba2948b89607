#include "head/core/priorities.h"

#include <algorithm>

#include "common/base/limits.h"
#include "head/core/backfill.h"
#include "head/core/freeze.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

int PriorityOf(const World& world, ExperimentId id) {
  return world.index.experiments.at(id).spec.priority;
}

// Its capacity will be free without a request.
bool IsEnding(const Trial& trial, const Attempt& live) {
  return live.suspending || trial.stop_cause != StopCause::kNone || live.FirstFailure() != nullptr;
}

}  // namespace

int PriorityOf(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  return experiment == nullptr ? 0 : experiment->spec.priority;
}

bool RunsBelow(const World& world, int priority) {
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority < priority && !index.live.empty()) return true;
  }
  return false;
}

void PreemptionPlan::CollectRunning() {
  if (collected_) return;
  collected_ = true;
  const World& world = draft_.core.world;
  capacities_ = CapacitiesNow(draft_.core, draft_.now);
  for (ExperimentId id : world.index.open_experiments) {
    for (uint32_t number : world.index.experiments.at(id).live) {
      const Owner owner = Owner::Of(TrialId{id, number});
      const Trial& trial = *FindTrial(world.state, owner.trial());
      const Attempt& live = *trial.runs.live();
      if (live.is_backfilled()) continue;  // It holds no capacity.
      if (IsEnding(trial, live)) {
        const ResourceRequest& request = RequestOf(world, owner);
        const bool keeps = live.freeze.is_wanted();  // Its memory.
        ReturnCapacity(capacities_, keeps ? NeededToThaw(request) : request, live.members);
      } else {
        runners_.push_back({{owner, live.number, live.generation}, PriorityOf(world, id),
                            live.placed_at, &live});
      }
    }
  }
  std::sort(runners_.begin(), runners_.end(), [](const Runner& a, const Runner& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.placed_at != b.placed_at ? a.placed_at > b.placed_at : b.id < a.id;
  });
}

void PreemptionPlan::PlanFor(const ResourceRequest& wanted, const ReadyQueue& queue) {
  for (const auto& [order, owner] : queue.by_order) {
    const bool planned = PlanForOwner(wanted, owner);
    if (!planned && AvoidedBy(draft_.core.world, owner).empty()) return;
  }
}

bool PreemptionPlan::PlanForOwner(const ResourceRequest& wanted, const Owner& owner) {
  const World& world = draft_.core.world;
  const bool has_priority = ExperimentOf(world, owner) != nullptr;
  if (!has_priority || !RunsBelow(world, rt::PriorityOf(world, owner))) return false;
  if (requested_.contains(owner)) return true;
  if (requested_.size() == limits::kPreemptionsPerRound) return false;
  requested_.insert(owner);
  if (TakeSurplus(owner, wanted)) return true;
  CollectRunning();
  return Preempt(owner, wanted);
}

// Elastic attempts shrink, or do so already, and nobody has to end. False: that is not enough.
bool PreemptionPlan::TakeSurplus(const Owner& owner, const ResourceRequest& wanted) {
  const World& world = draft_.core.world;
  if (world.index.elastic.empty()) return false;
  if (!surplus_.has_value()) surplus_.emplace(draft_);
  const int priority = rt::PriorityOf(world, owner);
  std::set<NodeId> closed = ReservedFrom(priority);
  closed.merge(AvoidedBy(world, owner));
  const auto members = surplus_->Find(wanted, closed, priority);
  if (!members.has_value()) return false;
  bool can_all = true;
  for (const auto& [shrunk, size] : surplus_->TakeShrunk())
    can_all = ShrinkTo(draft_, shrunk, size) && can_all;
  if (can_all) Reserve(*members, priority);
  return can_all;
}

void PreemptionPlan::Reserve(const std::vector<Member>& members, int priority) {
  for (const Member& member : members) reserved_.try_emplace(member.node, priority);
}

bool PreemptionPlan::Preempt(const Owner& owner, const ResourceRequest& wanted) {
  const World& world = draft_.core.world;
  const int priority = rt::PriorityOf(world, owner);
  const std::set<NodeId> avoided = AvoidedBy(world, owner);
  const auto ending = FindVictims(owner, wanted, avoided);
  if (!ending.has_value()) return false;
  const bool can_freeze = FitsBesideFrozen(owner, wanted, *ending, avoided);
  for (const Runner& one : *ending) {
    ReturnCapacity(capacities_, RequestOf(world, one.id.owner), one.attempt->members);
    std::erase_if(runners_, [&](const Runner& runner) { return runner.id == one.id; });
    CancelBackfills(draft_, one.id, "its capacity is needed for a higher priority");
    draft_.Emit(event::PreemptionRequested{one.id, owner.trial().experiment});
    if (can_freeze) TryFreeze(draft_, one.id.owner);
  }
  const auto members = Put(owner, wanted, capacities_, avoided);
  if (!members.has_value()) return false;
  Reserve(*members, priority);
  return true;
}

// Those of them that may be frozen keep their memory: whether that is no obstacle.
bool PreemptionPlan::FitsBesideFrozen(const Owner& owner, const ResourceRequest& wanted,
                                      const std::vector<Runner>& ending,
                                      const std::set<NodeId>& avoided) const {
  const World& world = draft_.core.world;
  std::vector<FreeCapacity> capacities = capacities_;
  for (const Runner& one : ending) {
    const ResourceRequest& request = RequestOf(world, one.id.owner);
    const bool keeps = MayFreeze(world, one.id.owner);
    ReturnCapacity(capacities, keeps ? NeededToThaw(request) : request, one.attempt->members);
  }
  return Put(owner, wanted, capacities, avoided).has_value();
}

// A frozen owner takes what it had: other gpus of its node are of no use to it.
std::optional<std::vector<Member>> PreemptionPlan::Put(const Owner& owner,
                                                       const ResourceRequest& wanted,
                                                       std::vector<FreeCapacity>& capacities,
                                                       const std::set<NodeId>& avoided) const {
  const World& world = draft_.core.world;
  if (!IsFrozen(world, owner)) return PutInto(capacities, wanted, avoided);
  const std::vector<Member>& members = FindRuns(world.state, owner)->live()->members;
  for (const FreeCapacity& capacity : capacities) {
    if (capacity.id != members.front().node) continue;
    if (!HasCapacityOf(capacity, wanted.one(), members.front())) return std::nullopt;
    TakeCapacity(capacities, wanted, members);
    return members;
  }
  return std::nullopt;
}

std::optional<std::vector<PreemptionPlan::Runner>> PreemptionPlan::FindVictims(
    const Owner& owner, const ResourceRequest& wanted, const std::set<NodeId>& avoided) const {
  const World& world = draft_.core.world;
  const int priority = rt::PriorityOf(world, owner);
  const auto fits = [&](const std::vector<Runner>& gone) {
    std::vector<FreeCapacity> capacities = capacities_;
    for (const Runner& one : gone)
      ReturnCapacity(capacities, RequestOf(world, one.id.owner), one.attempt->members);
    return Put(owner, wanted, capacities, avoided).has_value();
  };
  std::vector<Runner> gone;
  if (fits(gone)) return gone;
  const auto below = std::partition_point(runners_.begin(), runners_.end(), [&](const Runner& one) {
    return one.priority < priority;
  });
  gone.assign(runners_.begin(), below);
  if (!fits(gone)) return std::nullopt;
  // The shortest prefix (lowest priority, youngest) with which it fits; then drop those not needed.
  size_t least = 1, most = gone.size();
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    if (fits({runners_.begin(), runners_.begin() + static_cast<std::ptrdiff_t>(middle)})) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  std::vector<Runner> first(gone.begin(), gone.begin() + static_cast<std::ptrdiff_t>(least));
  if (fits(first)) gone = std::move(first);  // Packing is greedy: more capacity may make it worse.
  for (size_t i = gone.size(); i-- > 0;) {
    std::vector<Runner> fewer = gone;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits(fewer)) gone = std::move(fewer);
  }
  return gone;
}

void PreemptionPlan::NotePlaced(const ResourceRequest& wanted, const std::vector<Member>& members) {
  if (collected_) TakeCapacity(capacities_, wanted, members);
  if (surplus_.has_value()) surplus_->NotePlaced(wanted, members);
}

std::set<NodeId> PreemptionPlan::ReservedFrom(int priority) const {
  std::set<NodeId> nodes;
  for (const auto& [node, whose] : reserved_)
    if (whose > priority) nodes.insert(node);
  return nodes;
}

std::string QueuedBefore(const World& world, const Owner& owner) {
  const int priority = rt::PriorityOf(world, owner);
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority > priority && index.ready > 0)
      return "experiment " + std::to_string(id.value) + " of priority " +
             std::to_string(index.spec.priority);
  }
  return "";
}

size_t CountEndingFor(const World& world, const Owner& owner) {
  const int priority = rt::PriorityOf(world, owner);
  size_t ending = 0;
  for (ExperimentId id : world.index.open_experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    if (index.spec.priority >= priority) continue;
    for (uint32_t number : index.live)
      ending += FindTrial(world.state, {id, number})->runs.live()->suspending ? 1 : 0;
  }
  return ending;
}

}  // namespace rt
