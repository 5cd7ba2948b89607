#include "head/loop/parked_syncs.h"

#include "common/base/limits.h"
#include "common/base/status.h"
#include "head/core/incarnations.h"

namespace rt {

std::optional<ParkedSync> ParkedSyncs::Park(NodeId node, ParkedSync sync) {
  std::optional<ParkedSync> older = Take(node);
  by_expiry_.emplace(sync.until, node);
  parked_.emplace(node, std::move(sync));
  return older;
}

std::optional<ParkedSync> ParkedSyncs::Take(NodeId node) {
  auto found = parked_.find(node);
  if (found == parked_.end()) return std::nullopt;
  ParkedSync sync = std::move(found->second);
  parked_.erase(found);
  by_expiry_.erase({sync.until, node});
  return sync;
}

std::vector<NodeId> ParkedSyncs::Expired(SteadyTime now) const {
  std::vector<NodeId> nodes;
  for (const auto& [until, node] : by_expiry_) {
    if (until > now) break;
    nodes.push_back(node);
  }
  return nodes;
}

std::optional<SteadyTime> ParkedSyncs::NextExpiry() const {
  if (by_expiry_.empty()) return std::nullopt;
  return by_expiry_.begin()->first;
}

std::vector<ParkedSync> ParkedSyncs::TakeAll() {
  std::vector<ParkedSync> all;
  for (auto& [node, sync] : parked_) all.push_back(std::move(sync));
  parked_.clear();
  by_expiry_.clear();
  return all;
}

uint64_t ParkedSyncs::VersionOf(NodeId node) {
  // Workers say 0 when they have seen nothing.
  return versions_.try_emplace(node, 1).first->second;
}

bool ParkedSyncs::IsOutdated(NodeId node, uint64_t epoch) {
  auto found = parked_.find(node);
  return found != parked_.end() && (found->second.seen_epoch != epoch ||
                                    found->second.seen_version != VersionOf(node));
}

void ParkedSyncs::NoteTold(NodeId node, uint64_t epoch) {
  auto found = parked_.find(node);
  if (found == parked_.end()) return;
  found->second.seen_epoch = epoch;
  found->second.seen_version = VersionOf(node);
}

const ParkedSync* ParkedSyncs::Find(NodeId node) const {
  auto found = parked_.find(node);
  return found == parked_.end() ? nullptr : &found->second;
}

bool IsOvertaken(const Core& core, NodeId node, const ParkedSync& sync) {
  const auto found = core.soft.nodes.find(node);
  return found != core.soft.nodes.end() && found->second.incarnation == sync.incarnation &&
         found->second.sync_seq > sync.sync_seq;
}

SyncReply MakeSyncReply(const Core& core, NodeId node, uint64_t version,
                        const std::set<Fence>& listed) {
  const World& world = core.world;
  SyncReply reply;
  reply.epoch = world.state.epoch;
  reply.version = version;
  reply.hold = limits::kSyncHold;
  auto found = world.state.nodes.find(node);
  if (found == world.state.nodes.end() || found->second.gone) {
    reply.status = NotFound("node " + std::to_string(node.value) + " is not part of the cluster");
    return reply;
  }
  // Of a node that is lost only the journalled incarnation is known.
  reply.newest_incarnation = KnownIncarnation(world.state, found->second);
  if (auto soft = core.soft.nodes.find(node); soft != core.soft.nodes.end() && soft->second.seen) {
    reply.newest_incarnation = soft->second.incarnation;
    reply.newest_seq = soft->second.sync_seq;
  }
  for (const ClearedGpu& cleared : found->second.cleared_gpus)
    if (!cleared.heard) reply.cleared_gpus.push_back(cleared);
  reply.faulty_gpus = found->second.faulty_gpus;
  reply.desired = DesiredFor(world, node);
  reply.bodies = BodiesFor(world, reply.desired, listed);
  return reply;
}

}  // namespace rt
