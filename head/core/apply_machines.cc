#include "head/core/apply_machines.h"

#include <algorithm>
#include <set>

#include "common/base/limits.h"
#include "head/core/apply_links.h"
#include "head/core/index.h"

namespace rt {

void AddMachines(State& state, const event::MachinesRequested& e, Millis at) {
  for (uint64_t number = e.request; number < e.request + e.count; ++number)
    state.machines[number] = {
        .number = number, .pool = e.pool, .request = e.request, .requested_at = at};
  state.last_machine = std::max(state.last_machine, e.request + e.count - 1);
}

void ConfirmMachines(State& state, const event::MachinesCreated& e, Millis at) {
  for (const CreatedMachine& created : e.machines) {
    Machine& machine = state.machines.at(created.machine);
    machine.id = created.id;
    machine.created_at = at;
    state.pools.erase(machine.pool);
  }
}

void FailMachines(State& state, const event::MachinesFailed& e) {
  Pool& pool = state.pools[e.pool];
  pool = {
      .error = e.error, .reason = e.reason, .failures = pool.failures + 1, .retry_at = e.retry_at};
  if (e.error == ProviderError::kRetryLater) return;  // They may exist.
  std::erase_if(state.machines, [&](const auto& item) {
    return item.second.request == e.request && item.second.id.empty();
  });
}

void ReleaseMachine(State& state, const event::MachineReleased& e, Millis at) {
  Machine& machine = state.machines[e.machine];
  machine.number = e.machine;
  machine.pool = e.pool;
  if (machine.request == 0) machine.request = e.machine;
  if (machine.id.empty()) machine.id = e.id;
  machine.released_at = at;
  machine.reason = e.reason;
  state.last_machine = std::max(state.last_machine, e.machine);
}

void NoteGone(World& world, const event::NodeGone& e) {
  Node& node = world.state.nodes.at(e.node);
  node.gone = true;
  node.ready = false;
  node.away_until = 0;
  node.reason = e.reason;
  ForgetLinksOf(world.state, e.node);
  RefreshFree(world, e.node);
  DropOldestGone(world);
}

void DropOldestGone(World& world) {
  State& state = world.state;
  std::set<NodeId> named;
  for (const auto& [number, machine] : state.machines) named.insert(machine.node);
  size_t gone = 0;
  const Node* oldest = nullptr;
  for (const auto& [id, node] : state.nodes) {
    if (!node.gone) continue;
    ++gone;
    const NodeIndex& index = world.index.nodes.at(id);
    if (named.contains(id) || index.replica_count != 0) continue;
    if (oldest == nullptr || node.changed_at < oldest->changed_at) oldest = &node;
  }
  if (gone <= limits::kGoneNodesKept || oldest == nullptr) return;
  const NodeId id = oldest->id;
  world.index.nodes.erase(id);
  state.nodes.erase(id);
}

void NoteRequested(State& state, const event::ResourcesRequested& e, Millis at) {
  state.requested_bundles = e.bundles;
  state.requested_by = e.by;
  state.requested_at = at;
}

void NoteJoined(State& state, const event::NodeJoined& e) {
  const auto machine = state.machines.find(e.machine);
  if (machine != state.machines.end()) machine->second.node = e.node;
}

}  // namespace rt
