// The auditor's part about what an attempt holds, and about several ranks: they are placed, met,
// ended and fenced together.
#include <algorithm>
#include <cmath>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

Resources ResourcesFrom(const Json* json, int64_t cpu_default) {
  Resources resources;
  resources.cpu = cpu_default;
  if (json == nullptr) return resources;
  const double cpus = json->GetDouble("cpu", static_cast<double>(cpu_default) / 1e4);
  resources.cpu = std::llround(cpus * 1e4);
  resources.gpu = std::llround(json->GetDouble("gpu", 0) * 1e4);
  return resources;
}

int64_t UnitsEach(const Resources& asks) { return asks.gpu % 10'000 != 0 ? asks.gpu : 10'000; }

}  // namespace

AuditedAsks AuditedAsks::From(const Json* json, int64_t cpu_default) {
  AuditedAsks asks;
  const Json* bundles = json == nullptr ? nullptr : json->Find("bundles");
  if (bundles == nullptr) {
    int64_t ranks = json == nullptr ? 1 : json->GetInt("ranks", 1);
    const Json* bounds = json == nullptr ? nullptr : json->Find("ranks");
    if (bounds != nullptr && bounds->is_array()) {
      ranks = bounds->array()[0].AsInt();
      asks.ranks_max = static_cast<uint32_t>(bounds->array()[1].AsInt());
    }
    asks.bundles.assign(static_cast<size_t>(ranks), ResourcesFrom(json, cpu_default));
    asks.ranks = static_cast<uint32_t>(ranks);
  } else {
    for (const Json& bundle : bundles->array()) asks.bundles.push_back(ResourcesFrom(&bundle, 0));
    asks.ranks = static_cast<uint32_t>(
        json->GetInt("ranks", static_cast<int64_t>(asks.bundles.size())));
  }
  asks.ranks_asked = asks.ranks;
  if (json == nullptr) return asks;
  asks.strategy = json->GetString("strategy", "PACK");
  asks.text = asks.text_asked = json->Dump();
  return asks;
}

void Auditor::CheckGang(const event::AttemptPlaced& e, const AuditedAsks& asks) const {
  Must(e.members.size() == asks.bundles.size(), "all of a gang is placed, or nothing");
  std::set<NodeId> nodes;
  for (uint32_t rank = 0; rank < e.members.size(); ++rank) {
    Must(e.members[rank].rank == rank, "members stand in the order of their ranks");
    nodes.insert(e.members[rank].node);
    const auto node = nodes_.find(e.members[rank].node);
    Must(node == nodes_.end() || node->second.away_until == 0,
         "nothing new goes to a node that is away");
  }
  CheckLinks(e.attempt, nodes);
  Must(asks.strategy != "STRICT_PACK" || nodes.size() == 1, "STRICT_PACK is one node");
  Must(asks.strategy != "STRICT_SPREAD" || nodes.size() == e.members.size(),
       "STRICT_SPREAD is a node for each");
}

void Auditor::Take(const Member& member, const AttemptId& attempt, const Resources& asks) {
  NodeBook& node = NodeOf(member.node);
  Must(node.ready && !node.gone, "work goes to ready nodes only");
  Must(!node.draining, "nothing new goes to a draining node");
  Hold(member, attempt, asks);
}

void Auditor::Hold(const Member& member, const AttemptId& attempt, const Resources& asks) {
  NodeBook& node = NodeOf(member.node);
  node.live.insert(attempt);
  Add(member, asks);
}

void Auditor::Add(const Member& member, const Resources& asks) {
  NodeBook& node = NodeOf(member.node);
  const Resources& has = node.inventory.resources;
  node.used.cpu += asks.cpu;
  node.used.memory += asks.memory;
  Must(node.used.cpu <= has.cpu && node.used.memory <= has.memory,
       "a node's capacity is never exceeded");
  TakeGpus(node, member, asks);
}

void Auditor::TakeGpus(NodeBook& node, const Member& member, const Resources& asks) {
  const bool share = asks.gpu % 10'000 != 0;
  Must(!share || asks.gpu < 10'000, "nobody asks for one gpu and a half");
  Must(member.gpus.size() == static_cast<uint64_t>(share ? 1 : asks.gpu / 10'000),
       "as many gpus as were asked for");
  for (uint32_t gpu : member.gpus) {
    const auto& all = node.inventory.gpus;
    const auto device = std::find_if(all.begin(), all.end(),
                                     [&](const GpuInfo& info) { return info.index == gpu; });
    Must(device != all.end() && device->fault.empty(), "work goes to gpus that are well");
    Must((node.gpus[gpu] += UnitsEach(asks)) <= 10'000,
         "no gpu is promised beyond the whole of it");
  }
}

void Auditor::Release(OwnerBook& owner, const AttemptId& attempt) {
  if (backfill_before_.contains(attempt)) {
    DropBackfill(attempt, owner.members.front());
    return owner.members.clear();
  }
  for (const Member& member : owner.members) {
    NodeBook& node = NodeOf(member.node);
    node.live.erase(attempt);
    node.busy_at = at_;
    if (!owner.frozen) Return(member, owner.asks.bundles.at(member.rank));
  }
  owner.members.clear();
  Inherit(attempt);
}

void Auditor::Return(const Member& member, const Resources& asks) {
  NodeBook& node = NodeOf(member.node);
  node.used.cpu -= asks.cpu;
  node.used.memory -= asks.memory;
  for (uint32_t gpu : member.gpus) {
    if ((node.gpus[gpu] -= UnitsEach(asks)) == 0) node.gpus.erase(gpu);
  }
}

void Auditor::On(const event::PortAgreed& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  Must(owner.asks.ranks > 1, "one rank has nobody to meet");
  Must(owner.port == 0 && e.port != 0, "ranks agree where to meet once");
  auto kept = truth_->ports.find(e.attempt);
  Must(kept != truth_->ports.end() && kept->second.contains(e.port),
       "rank 0's node keeps the port");
  owner.port = e.port;
  meetings_[e.attempt] = {e.port, owner.asks.ranks};
}

// What a worker is about to start knows where to meet.
void Auditor::CheckMeeting(const LaunchSpec& body) const {
  if (body.world_size == 1) return;
  Must(body.port != 0, "several ranks know where to meet");
  auto meeting = meetings_.find(body.fence.attempt);
  if (meeting == meetings_.end()) {
    Must(body.fence.rank == 0, "only rank 0 starts before it is agreed where to meet");
    return;
  }
  Must(meeting->second.second == body.world_size, "every rank knows how many there are");
  Must(body.fence.rank == 0 || meeting->second.first == body.port,
       "the ranks meet where it was agreed");
}

void Auditor::On(const event::RankExited& e) {
  OwnerBook& owner = LiveOf(e.attempt);
  const RankExit& exit = e.exit;
  Must(owner.asks.ranks > 1 && exit.rank < owner.asks.ranks, "the rank exists, beside others");
  bool others_failed = false;
  for (const RankExit& other : owner.exits) {
    Must(other.rank != exit.rank, "a rank exits once");
    others_failed |= other.outcome != AttemptOutcome::kSucceeded;
  }
  if (exit.outcome == AttemptOutcome::kStopped) {
    Must(owner.stop_requested || others_failed, "somebody asked it to stop, or a rank failed");
  } else if (exit.outcome == AttemptOutcome::kSuspended) {
    Must(owner.suspending, "only who was asked to save and end is suspended");
  } else if (exit.outcome == AttemptOutcome::kPreempted) {
    CheckEvicted({e.attempt, exit.rank}, owner);
  } else if (exit.outcome == AttemptOutcome::kResized) {
    CheckResizeExit({e.attempt, exit.rank}, owner);
  } else if (exit.outcome != AttemptOutcome::kLost ||
             truth_->runs.contains({e.attempt, exit.rank})) {  // It was started.
    CheckExit({e.attempt, exit.rank}, exit.outcome, owner);
  }
  owner.exits.push_back(exit);
}

// The end of an attempt of several ranks: the first failure decides, and none is left behind.
void Auditor::CheckGangEnd(const event::AttemptEnded& e, const OwnerBook& owner) {
  const RankExit* failure = nullptr;
  bool is_missing = false;
  for (const RankExit& exit : owner.exits) {
    if (failure == nullptr && exit.outcome != AttemptOutcome::kSucceeded) failure = &exit;
  }
  for (uint32_t rank = 0; rank < owner.asks.ranks; ++rank) {
    auto exit = std::find_if(owner.exits.begin(), owner.exits.end(),
                             [&](const RankExit& one) { return one.rank == rank; });
    if (exit == owner.exits.end()) {
      is_missing |= rank == 0 || owner.port != 0;
    } else {
      is_missing |= Accepted({e.attempt, rank}) < exit->last_seq;
    }
  }
  if (failure != nullptr) {
    Must(e.outcome == failure->outcome, "the first rank that failed says how the attempt ended");
  } else {
    Must(e.outcome == AttemptOutcome::kLost || e.outcome == AttemptOutcome::kSucceeded,
         "no rank failed");
    Must(e.outcome == AttemptOutcome::kLost || !is_missing, "a success is that of all ranks");
  }
  const auto first = truth_->runs.find({e.attempt, 0});
  const bool is_slow = first != truth_->runs.end() && !first->second.slow_links.empty();
  Must(e.outcome != AttemptOutcome::kLost || !calm_ || is_slow,
       "nothing is lost once the faults are over, but to links that are slow for longer");
  if (!is_missing || e.outcome == AttemptOutcome::kLost) return;
  // What the ranks begin from is lost before rank 0 has reported: those that are left cannot start.
  const bool has_lost_start =
      Accepted({e.attempt, 0}) == 0 &&
      std::any_of(owner.checkpoints.begin(), owner.checkpoints.end(), [&](const auto& book) {
        return !book.retired && book.replicas.size() == 1 &&
               IsRotten(book.manifest, *book.replicas.begin());
      });
  if (has_lost_start) return;
  for (const Member& member : owner.members) {
    const NodeBook& node = NodeOf(member.node);  // Drained, and the deadline has passed?
    if (node.drain_until != 0 && at_ >= node.drain_until) return;
  }
  for (const Member& member : owner.members) broken_[e.attempt].insert(member.node);
}

// Who ended before all of its ranks had lost one of their nodes, or what was known there.
void Auditor::CheckBroken() {
  for (const auto& [attempt, nodes] : broken_) {
    bool is_excused = false;
    auto run = truth_->runs.lower_bound({attempt, 0});
    for (; run != truth_->runs.end() && run->first.attempt == attempt; ++run)
      is_excused |= run->second.forgotten;
    for (NodeId id : nodes) is_excused |= lost_nodes_.contains(id);
    is_excused |= truth_->ports.contains(attempt) && truth_->ports.at(attempt).size() > 1;
    Must(is_excused, "an attempt ends once all of its ranks have");
  }
  broken_.clear();
  lost_nodes_.clear();
}

}  // namespace rt::sim
