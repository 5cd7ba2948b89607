// Nodes: what their daemons say, leases, and what it means when they fall silent.
#include <algorithm>

#include "common/base/deadline.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/incarnations.h"
#include "head/core/links.h"
#include "head/core/names.h"
#include "head/core/profiles.h"

namespace rt {
namespace {

void SetDeadline(Soft& soft, NodeId id, Millis at) {
  SoftNode& node = soft.nodes[id];
  soft.deadlines.erase({node.lost_at, id});
  node.lost_at = at;
  soft.deadlines.insert({at, id});
}

void Forget(Soft& soft, NodeId id) {
  auto node = soft.nodes.find(id);
  if (node == soft.nodes.end()) return;
  soft.deadlines.erase({node->second.lost_at, id});
  soft.nodes.erase(node);
}

void LoseAttempts(Draft& draft, NodeId id, const std::string& reason) {
  CancelBackfills(draft, id, reason);
  const std::set<Fence> attempts = draft.index().nodes[id].attempts;  // Copy: Emit edits it.
  for (const Fence& fence : attempts) LoseAttempt(draft, fence.attempt, reason);
}

void LoseNode(Draft& draft, NodeId id, const std::string& reason) {
  const std::string name = draft.state().nodes.at(id).name;
  LoseAttempts(draft, id, "node " + name + " was lost: " + reason);
  const SoftNode& soft = draft.soft().nodes.at(id);
  const Millis seen_at = soft.seen ? soft.last_seen_at : 0;
  draft.Emit(event::NodeLost{id, reason, seen_at});
  Forget(draft.soft(), id);
}

bool IsAway(const State& state, NodeId id) { return state.nodes.at(id).away_until != 0; }

bool IsSilent(const SoftNode& node, Millis now) {
  return !node.connected || now - node.last_seen_at > limits::kSuspectAfter;
}

// Whether leases are frozen because many nodes vanished at once: see limits::kVanishedNodesMin.
// Nodes that announced to be away say nothing about the network.
bool IsFrozen(Draft& draft) {
  Soft& soft = draft.soft();
  const Millis now = draft.now;
  size_t silent = 0, expected = 0;
  for (const auto& [id, node] : soft.nodes) {
    if (IsAway(draft.state(), id)) continue;
    ++expected;
    silent += IsSilent(node, now) ? 1 : 0;
  }
  const bool many = silent >= limits::kVanishedNodesMin &&
                    silent * 100 > expected * limits::kVanishedPercent;
  if (!many) {
    soft.frozen_at = 0;
  } else if (soft.frozen_at == 0) {
    soft.frozen_at = now;
  }
  return many && now - soft.frozen_at < limits::kFreezeMax;
}

// After a network outage, silent nodes get the restart grace period to reconnect.
void GiveSilentTime(Draft& draft) {
  std::vector<NodeId> silent;
  for (const auto& [id, node] : draft.soft().nodes)
    if (IsSilent(node, draft.now) && !IsAway(draft.state(), id)) silent.push_back(id);
  for (NodeId id : silent)
    SetDeadline(draft.soft(), id, draft.now + limits::kRestartGrace);
}

// Notifies the attempts on the node of its change, and cancels backfills there.
void EmitAndTell(Draft& draft, NodeId id, Event event) {
  draft.Emit(std::move(event));
  if (draft.state().nodes.at(id).draining) CancelBackfills(draft, id, "its node drains");
  for (const Fence& fence : draft.index().nodes[id].attempts)
    draft.MarkDirty(fence.attempt.owner);
}

// The node repeats its notice at every Sync, so a Sync without one ends the drain. A drain by hand
// takes precedence.
void HandleDraining(Draft& draft, const Node& node, const input::Sync& sync) {
  if (node.drained_by_hand) return;
  if (!sync.draining) {
    if (node.draining) EmitAndTell(draft, node.id, event::NodeResumed{node.id});
    return;
  }
  const Millis until = sync.drain_for <= 0 ? 0 : draft.now + sync.drain_for;
  if (!node.draining || !IsSameDeadline(node.drain_until, until, draft.now))
    EmitAndTell(draft, node.id, event::NodeDraining{node.id, sync.drain_reason, until});
}

// The last Sync of a daemon, which may arrive twice, the second time after a person has drained the
// node. A draining node keeps its lease: its attempts are being evicted.
void HandleAway(Draft& draft, const Node& node, const input::Sync& sync) {
  if (sync.away_for <= 0) return;
  if (node.away_until == 0) {
    if (node.draining) return;
    draft.Emit(event::NodeAway{
        node.id, draft.now + std::min<Millis>(sync.away_for, limits::kAwayMost)});
  }
  SetDeadline(draft.soft(), node.id, std::max(node.away_until, draft.now));
}

// What became true of a node whose lease has run out.
std::string WhyLost(const Node& node, const SoftNode& soft) {
  if (node.away_until != 0) return "its worker was stopped, and did not come back in time";
  if (!soft.seen) return "it did not come back after the head restarted";
  return soft.connected ? "it fell silent" : "its connection closed and it did not come back";
}

// Attempts that a daemon before this one reported running and this one does not know: their run
// directory is gone. What a daemon has listed it lists until the head desires it no more, so that
// later messages of the same one can only be late ones: a head that has just started cannot tell.
void LoseMissing(Draft& draft, const input::Sync& sync) {
  std::set<Fence> seen;
  for (const Observed& observed : sync.observed) seen.insert(observed.fence);
  const std::set<Fence> attempts = draft.index().nodes[sync.node].attempts;
  for (const Fence& fence : attempts) {
    const Attempt* live = FindLive(draft.state(), fence.attempt);
    if (live == nullptr || seen.contains(fence)) continue;
    if (live->pids.at(fence.rank) == 0 && live->accepted.at(fence.rank) == 0) continue;
    if (!live->IsWanted(fence.rank)) continue;  // It ended, and was forgotten as it should be.
    LoseAttempt(draft, fence.attempt, "its node no longer knows it");
  }
}

// A daemon numbers itself by its clock, or by one more than its predecessor. A number far ahead of
// our clock would make every later daemon of the node look outdated.
absl::Status CheckIncarnation(uint64_t incarnation, Millis now) {
  if (incarnation <= IncarnationMax(now)) return absl::OkStatus();
  return WithHint(
      absl::FailedPreconditionError("the worker's incarnation " + std::to_string(incarnation) +
                                    " lies more than a day ahead of the head's clock"),
      "compare the clocks of both machines, remove the file 'incarnation' in the worker's state "
      "directory, and start the worker again");
}

// A daemon numbers its calls one by one. A number far ahead of them would make all its calls late
// ones, and no call could follow the largest number.
absl::Status CheckSyncSeq(const Core& core, const input::Sync& sync) {
  const auto found = core.soft.nodes.find(sync.node);
  const bool is_known = found != core.soft.nodes.end() && found->second.seen &&
                        found->second.incarnation == sync.incarnation;
  const uint64_t most =
      is_known ? found->second.sync_seq + limits::kSyncSeqJump : limits::kSyncSeqFirst;
  if (sync.sync_seq <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the worker's call " + std::to_string(sync.sync_seq) + " lies too far ahead of " +
      (is_known ? "its call " + std::to_string(found->second.sync_seq) : "its first calls") +
      ": it is to number its calls from 1 again");
}

// A call of a daemon that has a successor. Its last calls may arrive late; when later and later
// ones keep coming, two programs have the node's certificate.
void NoteRival(Draft& draft, const input::Sync& sync) {
  Rival& rival = draft.soft().rivals[sync.node];
  if (rival.incarnation != sync.incarnation)
    rival = {sync.incarnation, sync.sync_seq, draft.now, draft.now};
  if (sync.sync_seq <= rival.sync_seq) return;
  rival.sync_seq = sync.sync_seq;
  rival.heard_at = draft.now;
}

}  // namespace

bool HasRival(const Core& core, NodeId id, Millis now) {
  auto rival = core.soft.rivals.find(id);
  return rival != core.soft.rivals.end() && now - rival->second.heard_at <= limits::kRivalSaid &&
         rival->second.heard_at - rival->second.first_at >= limits::kRivalAfter;
}

bool MayTakeWork(const Core& core, NodeId id, Millis now) {
  auto node = core.soft.nodes.find(id);
  if (node == core.soft.nodes.end() || IsAway(core.world.state, id)) return false;
  return node->second.seen && node->second.connected && !node->second.zombies &&
         node->second.fault.empty() && now - node->second.last_seen_at <= limits::kSuspectAfter;
}

absl::Status OnSync(Draft& draft, const input::Sync& sync) {
  RT_RETURN_IF_ERROR(CheckHistory(draft, sync));
  auto found = draft.state().nodes.find(sync.node);
  if (found == draft.state().nodes.end() || found->second.gone)
    return NotFound("this node is not part of the cluster", "join it again with a new token");
  const Node& node = found->second;
  RT_RETURN_IF_ERROR(CheckIncarnation(sync.inventory.incarnation, draft.now));
  RT_RETURN_IF_ERROR(CheckSyncSeq(draft.core, sync));
  // A late Sync of a daemon that has a successor would undo what the successor reported.
  if (sync.inventory.incarnation < KnownIncarnation(draft.state(), node)) {
    NoteRival(draft, sync);
    return absl::OkStatus();
  }
  SoftNode& soft = draft.soft().nodes[sync.node];
  bool same_daemon = soft.seen && soft.incarnation == sync.incarnation;
  if (same_daemon && sync.sync_seq <= soft.sync_seq) return absl::OkStatus();  // Overtaken.
  const bool is_new_daemon =
      sync.inventory.incarnation > KnownIncarnation(draft.state(), node);
  bool could_work = MayTakeWork(draft.core, sync.node, draft.now);
  soft.seen = true;
  soft.connected = true;
  soft.incarnation = sync.incarnation;
  soft.sync_seq = sync.sync_seq;
  soft.last_seen_at = draft.now;
  soft.restarts_by = 0;
  soft.zombies = false;
  soft.fault = sync.fault;
  soft.gpu_samples = sync.gpu_samples;
  soft.gpu_use.clear();
  for (const Observed& observed : sync.observed)
    if (observed.gpu.devices != 0) soft.gpu_use[observed.fence] = observed.gpu;
  soft.exits.clear();
  soft.outputs = sync.outputs;
  for (const Observed& observed : sync.observed)
    if (observed.phase == Observed::Phase::kExited) soft.outputs.insert(observed.fence);
  SetDeadline(draft.soft(), sync.node, draft.now + limits::kLostAfter);
  const bool is_back = node.away_until != 0 && sync.away_for <= 0;
  if (!node.ready || node.lost || is_back || !(node.inventory == sync.inventory))
    draft.Emit(event::NodeReady{sync.node, sync.inventory});
  HandleDraining(draft, node, sync);
  HandleAway(draft, node, sync);
  TakeProfiles(draft, sync);  // Before the attempts that they are of end.
  for (const Observed& observed : sync.observed) OnObserved(draft, sync.node, observed);
  if (is_new_daemon) LoseMissing(draft, sync);
  if (!could_work && MayTakeWork(draft.core, sync.node, draft.now)) draft.soft().try_place = true;
  return absl::OkStatus();
}

void OnDisconnected(Draft& draft, const input::Disconnected& input) {
  auto found = draft.soft().nodes.find(input.node);
  if (found == draft.soft().nodes.end() || found->second.incarnation != input.incarnation) return;
  const bool has_newer = input.sync_seq != 0 && input.sync_seq != found->second.sync_seq;
  if (has_newer) return;
  found->second.connected = false;
  if (IsAway(draft.state(), input.node)) return;
  Millis at = std::max(draft.now + limits::kLostAfterDisconnect, found->second.restarts_by);
  if (at < found->second.lost_at) SetDeadline(draft.soft(), input.node, at);
}

void OnDaemonEnded(Draft& draft, const input::DaemonEnded& input) {
  for (auto& [id, soft] : draft.soft().nodes) {
    const Node& node = draft.state().nodes.at(id);
    if (node.name != input.node || !node.counts() || node.away_until != 0) continue;
    soft.restarts_by = draft.now + limits::kDaemonRestart;
    if (soft.lost_at < soft.restarts_by) SetDeadline(draft.soft(), id, soft.restarts_by);
  }
}

absl::Status OnRemoveNode(Draft& draft, const input::RemoveNode& input) {
  auto found = draft.state().nodes.find(input.node);
  if (found == draft.state().nodes.end() || found->second.gone)
    return NotFound("no such node");
  LoseAttempts(draft, input.node, "node " + found->second.name + " was removed");
  draft.Emit(event::NodeGone{input.node, input.reason});
  Forget(draft.soft(), input.node);
  draft.soft().rivals.erase(input.node);
  return absl::OkStatus();
}

absl::Status OnForgetNode(Draft& draft, const input::ForgetNode& input) {
  auto found = draft.state().nodes.find(input.node);
  if (found == draft.state().nodes.end() || found->second.gone) return NotFound("no such node");
  const Node& node = found->second;
  if (!node.lost) {
    return WithHint(absl::FailedPreconditionError(
                        "node " + node.name + " is " + NodeStateName(draft.core, node) +
                        ": only a LOST node can be forgotten"),
                    "stop its worker first; a node is LOST seconds after its worker has ended");
  }
  return OnRemoveNode(draft, {input.node, input.reason});
}

absl::Status OnDrainNode(Draft& draft, const input::DrainNode& input) {
  auto found = draft.state().nodes.find(input.node);
  if (found == draft.state().nodes.end() || found->second.gone) return NotFound("no such node");
  if (input.deadline < 0) return Invalid("the deadline has passed", "--deadline 2m");
  const Millis until = input.deadline == 0 ? 0 : draft.now + input.deadline;
  EmitAndTell(draft, input.node, event::NodeDraining{input.node, input.reason, until, true});
  return absl::OkStatus();
}

namespace {

// Named by its uuid or by its index.
const GpuInfo* FindGpu(const Node& node, const std::string& name) {
  for (const GpuInfo& gpu : node.inventory.gpus)
    if (gpu.uuid == name || std::to_string(gpu.index) == name) return &gpu;
  return nullptr;
}

absl::Status NoSuchGpu(const Node& node, const std::string& name) {
  return NotFound("node " + node.name + " has no gpu '" + name + "'",
                  "rt node show " + node.name + " lists them; name one by its index or its uuid");
}

// The worker ends the quarantine and says so in its inventory.
absl::Status ClearGpu(Draft& draft, const Node& node, const std::string& name,
                      const std::string& probe) {
  const GpuInfo* gpu = FindGpu(node, name);
  if (gpu == nullptr) return NoSuchGpu(node, name);
  const std::string which = "gpu " + std::to_string(gpu->index) + " of node " + node.name;
  if (gpu->fault.empty()) return absl::FailedPreconditionError(which + " is not quarantined");
  if (gpu->quarantine == 0)
    return WithHint(absl::FailedPreconditionError(which + " has a fault now: " + gpu->fault),
                    "it takes work again once its driver finds it healthy");
  if (gpu->by_hand && !probe.empty())
    return WithHint(absl::FailedPreconditionError(which +
                                                  " has had a fault that rt-probe does not"
                                                  " test: " +
                                                  gpu->fault),
                    "rt node undrain " + node.name + " --gpu " + std::to_string(gpu->index) +
                        " ends its quarantine once it is repaired");
  for (const ClearedGpu& one : node.cleared_gpus)
    if (one.uuid == gpu->uuid && one.quarantine == gpu->quarantine) return absl::OkStatus();
  EmitAndTell(draft, node.id, event::GpuCleared{node.id, gpu->uuid, gpu->quarantine, probe});
  return absl::OkStatus();
}

}  // namespace

absl::Status OnUndrainNode(Draft& draft, const input::UndrainNode& input) {
  auto found = draft.state().nodes.find(input.node);
  if (found == draft.state().nodes.end() || found->second.gone) return NotFound("no such node");
  const Node& node = found->second;
  if (input.links) return ClearLinks(draft, node);
  if (!input.gpu.empty()) return ClearGpu(draft, node, input.gpu, input.probe);
  if (node.drained_by_hand) {
    EmitAndTell(draft, input.node, event::NodeResumed{input.node});
    return absl::OkStatus();
  }
  if (!node.draining)
    return absl::FailedPreconditionError("node " + node.name + " is not draining");
  return WithHint(absl::FailedPreconditionError("node " + node.name + " was given notice: " +
                                                node.reason),
                  "it takes work again once its notice is withdrawn");
}

// The worker begins the quarantine and says so in its inventory.
absl::Status OnQuarantineGpu(Draft& draft, const input::QuarantineGpu& input) {
  const auto found = draft.state().nodes.find(input.node);
  if (found == draft.state().nodes.end() || found->second.gone) return NotFound("no such node");
  const Node& node = found->second;
  const GpuInfo* gpu = FindGpu(node, input.gpu);
  if (gpu == nullptr) return NoSuchGpu(node, input.gpu);
  if (gpu->quarantine != 0)
    return absl::FailedPreconditionError("gpu " + std::to_string(gpu->index) + " of node " +
                                         node.name + " is quarantined: " + gpu->fault);
  for (const FaultyGpu& one : node.faulty_gpus)
    if (one.uuid == gpu->uuid) return absl::OkStatus();
  EmitAndTell(draft, node.id, event::GpuFaultFound{node.id, gpu->uuid, input.what});
  return absl::OkStatus();
}

void ExpireDrains(Draft& draft) {
  std::vector<NodeId> expired;
  for (const auto& [id, node] : draft.state().nodes)
    if (node.drained_by_hand && node.drain_until > 0 && node.drain_until <= draft.now)
      expired.push_back(id);
  for (NodeId id : expired)
    LoseAttempts(draft, id, "node " + draft.state().nodes.at(id).name +
                                " was drained, and the deadline has passed");
}

void GiveTimeToReturn(Draft& draft) {
  for (const auto& [id, node] : draft.state().nodes) {
    if (node.ready && node.counts())
      SetDeadline(draft.soft(), id,
                  std::max(node.away_until, draft.now + limits::kRestartGrace));
  }
}

void ExpireLeases(Draft& draft) {
  std::set<std::pair<Millis, NodeId>>& deadlines = draft.soft().deadlines;
  if (deadlines.empty() || deadlines.begin()->first > draft.now) return;
  const bool was_frozen = draft.soft().frozen_at != 0;
  const bool frozen = IsFrozen(draft);
  if (was_frozen && draft.soft().frozen_at == 0) GiveSilentTime(draft);
  const Millis thaw = draft.soft().frozen_at + limits::kFreezeMax;
  while (!deadlines.empty() && deadlines.begin()->first <= draft.now) {
    NodeId id = deadlines.begin()->second;
    if (frozen) {  // Looked at again soon: most of them may be back by then.
      SetDeadline(draft.soft(), id, std::min(thaw, draft.now + limits::kSuspectAfter));
      continue;
    }
    LoseNode(draft, id, WhyLost(draft.state().nodes.at(id), draft.soft().nodes.at(id)));
  }
  if (!frozen) draft.soft().frozen_at = 0;
}

void ForgiveStall(Draft& draft, Millis stall) {
  std::vector<std::pair<Millis, NodeId>> all(draft.soft().deadlines.begin(),
                                             draft.soft().deadlines.end());
  for (const auto& [at, id] : all) {
    SetDeadline(draft.soft(), id, at + stall);
    draft.soft().nodes.at(id).last_seen_at += stall;
  }
}

}  // namespace rt
