#include "head/core/freeze.h"

#include <algorithm>

#include "common/base/limits.h"
#include "head/core/backfill.h"
#include "head/core/devices.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/priorities.h"

namespace rt {
namespace {

size_t CountFreezes(const World& world, NodeId node) {
  return static_cast<size_t>(std::count_if(
      world.index.freezes.begin(), world.index.freezes.end(), [&](const AttemptId& id) {
        return FindLive(world.state, id)->members.front().node == node;
      }));
}

// Whether it has executors, whose tasks a frozen driver would leave alone.
bool HasExecutors(const World& world, const Owner& owner) {
  const auto& sessions = world.index.executors.sessions;
  for (auto at = sessions.lower_bound({owner, "", ""});
       at != sessions.end() && at->first.opener == owner; ++at)
    if (at->second.open > 0) return true;
  return false;
}

// Whether its node has its cpus and the gpus that it had.
bool HasItsCapacity(const World& world, const Owner& owner, const Attempt& live) {
  const Member& member = live.members.front();
  const NodeIndex& index = world.index.nodes.at(member.node);
  const Node& node = world.state.nodes.at(member.node);
  FreeCapacity capacity{
      .id = node.id, .free = node.inventory.resources, .devices = FreeDevices(node, index)};
  capacity.free.Subtract(index.used);
  return HasCapacityOf(capacity, RequestOf(world, owner).one(), member);
}

// It starts again from its newest checkpoint, once it may run.
void EndFrozen(Draft& draft, const AttemptId& id, AttemptOutcome outcome,
               const std::string& reason) {
  EndAttempt(draft, {.attempt = id, .outcome = outcome, .reason = reason});
}

// Whether it has waited for its node for too long, while another one could run it, or other gpus of
// that node.
bool IsStuck(Draft& draft, const AttemptId& id, const Attempt& live,
             std::map<Owner, Millis>& waits) {
  const World& world = draft.core.world;
  if (!world.index.ready_order.contains(id.owner)) return false;
  const Member& member = live.members.front();
  const auto known = draft.soft().thaw_waits.find(id.owner);
  const Millis since = known == draft.soft().thaw_waits.end() ? draft.now : known->second;
  waits[id.owner] = since;
  if (draft.now - since < limits::kThawWait || !QueuedBefore(world, id.owner).empty()) return false;
  std::set<NodeId> closed = FindRuns(world.state, id.owner)->excluded;
  if (member.gpus.empty()) closed.insert(member.node);
  return FindPlaces(draft.core, RequestOf(world, id.owner), draft.now, closed).has_value();
}

void ReviewFrozen(Draft& draft, const AttemptId& id, const Attempt& live,
                  std::map<Owner, Millis>& waits) {
  const Node& node = draft.state().nodes.at(live.members.front().node);
  if (PolicyOf(id.owner).is_stopping(draft.state(), id.owner) || live.replaced) return;
  if (node.draining)
    return EndFrozen(draft, id, AttemptOutcome::kPreempted,
                     "it was frozen, and node " + node.name + " drains");
  if (IsStuck(draft, id, live, waits)) {
    waits.erase(id.owner);
    EndFrozen(draft, id, AttemptOutcome::kSuspended,
              "it was frozen, and node " + node.name + " had no capacity for it, as others have");
  }
}

void ReviewFreezing(Draft& draft, const AttemptId& id, const Attempt& live) {
  const Node& node = draft.state().nodes.at(live.members.front().node);
  std::string why;
  if (node.draining) why = "node " + node.name + " drains";
  else if (draft.now - live.freeze.requested_at >= limits::kSuspendGrace + limits::kFreezeMost)
    why = "node " + node.name + " did not freeze it in time";
  if (!why.empty()) draft.Emit(event::AttemptFreezeGivenUp{id, why});
}

}  // namespace

Resources HeldFrozen(const Resources& bundle) {
  return {.memory = bundle.memory, .custom = bundle.custom};
}

ResourceRequest NeededToThaw(const ResourceRequest& request) {
  ResourceRequest needed = request;
  for (Resources& bundle : needed.bundles) bundle = {.cpu = bundle.cpu, .gpu = bundle.gpu};
  return needed;
}

bool HasCapacityOf(const FreeCapacity& capacity, const Resources& bundle, const Member& member) {
  if (capacity.free.cpu < bundle.cpu) return false;
  return std::all_of(member.gpus.begin(), member.gpus.end(), [&](uint32_t gpu) {
    return std::any_of(capacity.devices.begin(), capacity.devices.end(),
                       [&](const FreeDevice& device) {
                         return device.index == gpu && device.units >= UnitsPerDevice(bundle);
                       });
  });
}

bool IsFrozen(const World& world, const Owner& owner) {
  const Attempt* live = FindRuns(world.state, owner)->live();
  return live != nullptr && live->is_frozen();
}

bool MayFreeze(const World& world, const Owner& owner) {
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  if (!owner.is_trial() || experiment == nullptr || !experiment->spec.suspend) return false;
  const ResourceRequest& request = RequestOf(world, owner);
  const Attempt* live = FindRuns(world.state, owner)->live();
  if (live == nullptr || live->freeze.is_wanted() || live->replaced) return false;
  if (request.is_elastic() || request.is_gang() || live->members.size() != 1) return false;
  if (live->pids.front() == 0 || live->is_backfilled() || live->resize.is_pending()) return false;
  if (HasExecutors(world, owner)) return false;
  if (live->eviction_requested_at != 0 || !live->freeze.refused.empty()) return false;
  const Node& node = world.state.nodes.at(live->members.front().node);
  return !node.draining && CountFreezes(world, node.id) < limits::kFrozenPerNode;
}

void TryFreeze(Draft& draft, const Owner& owner) {
  if (!MayFreeze(draft.core.world, owner)) return;
  const Attempt& live = *FindRuns(draft.state(), owner)->live();
  if (!live.suspending) return;
  const AttemptId id{owner, live.number, live.generation};
  CancelBackfills(draft, id, "the trial before it is to be frozen");
  if (draft.index().backfills.contains(id)) return;  // One behind it has begun.
  draft.Emit(event::AttemptFreezeRequested{id, live.freeze.round + 1});
}

void NoteFreeze(Draft& draft, const Observed& observed) {
  const AttemptId& id = observed.fence.attempt;
  const Attempt& live = *FindLive(draft.state(), id);
  if (observed.phase != Observed::Phase::kRunning || !live.freeze.is_wanted()) return;
  const uint32_t round = live.freeze.round;
  if (live.is_frozen()) {
    // A head before this one had thawed it, and its record of that is lost.
    if (observed.frozen != round)
      LoseAttempt(draft, id, "the head before this one had thawed it, which is lost");
  } else if (observed.frozen == round) {
    draft.Emit(event::AttemptFrozen{id});
    // As after the end of an attempt: its scheduler may have waited for this one.
    ReviewTrials(draft, id.owner.trial().experiment);
    ProposeTrials(draft, id.owner.trial().experiment);
  } else if (observed.freeze_refused == round) {
    draft.Emit(event::AttemptFreezeGivenUp{
        id, observed.freeze_why.empty() ? "its node cannot" : observed.freeze_why});
  }
}

bool TryThaw(Draft& draft, const Owner& owner, const std::set<NodeId>& closed) {
  const World& world = draft.core.world;
  const Attempt& live = *FindRuns(world.state, owner)->live();
  const NodeId node = live.members.front().node;
  if (live.replaced || world.state.nodes.at(node).draining || closed.contains(node)) return false;
  if (!MayTakeWork(draft.core, node, draft.now) || !HasItsCapacity(world, owner, live))
    return false;
  draft.soft().idle_since.erase(node);
  draft.Emit(event::AttemptThawed{{owner, live.number, live.generation}});
  return true;
}

void ReviewFreezes(Draft& draft) {
  if (draft.index().freezes.empty()) return;
  std::map<Owner, Millis> waits;
  const std::set<AttemptId> freezes = draft.index().freezes;  // Edited below.
  for (const AttemptId& id : freezes) {
    const Attempt* live = FindLive(draft.state(), id);
    if (live == nullptr) continue;
    if (live->is_frozen()) ReviewFrozen(draft, id, *live, waits);
    else ReviewFreezing(draft, id, *live);
  }
  draft.soft().thaw_waits = std::move(waits);
}

}  // namespace rt
