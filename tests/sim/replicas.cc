// A node's checkpoints: where their bytes go, the commit, its replicas until the store has them,
// and what it fetches.
#include <algorithm>

#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

using ReplicaStatus = input::RenewReplica::ReplicaStatus;

// How long a message may be under way, or in a head that has not journalled its consequence.
constexpr Millis kMessageLasts = 10'000;
constexpr double kLateAtRot = 3;     // Times as often as of any other message.
constexpr double kRotsAtStart = 20;  // Times as often as whenever a node asks.

}  // namespace

// To the store, or to this node's disk and another's, which the commit then says.
void WorkerHost::Secure(const Run& run, input::CommitCheckpoint& commit) {
  commit.replicas.clear();
  const DurableAfter where = run.body.durable_after;
  WorkerHost* peer = where == DurableAfter::kPeer ? FindPeer() : nullptr;
  const bool is_replicated = where == DurableAfter::kLocal || peer != nullptr;
  if (run.collective || !is_replicated) {
    sim_.truth.manifests.insert(commit.manifest);
    return;
  }
  commit.replicas.push_back(node_);
  Hold(commit, false);
  if (peer == nullptr) return;
  commit.replicas.push_back(peer->node_);
  peer->Hold(commit, true);
}

WorkerHost* WorkerHost::FindPeer() const {
  std::vector<WorkerHost*> peers;
  for (WorkerHost* host : sim_.hosts)
    if (host != this && host->daemon_up_ && host->node_.value != 0) peers.push_back(host);
  return peers.empty() ? nullptr : peers[sim_.rng.Below(peers.size())];
}

void WorkerHost::SendCommit(const Fence& fence) {
  auto it = runs_.find(fence);
  if (it == runs_.end() || !it->second.commit) return;
  input::CommitCheckpoint commit = *it->second.commit;
  commit.seen_epoch = core_.epoch;
  commit.incarnation = Incarnation();
  if (auto own = replicas_.find(commit.manifest); own != replicas_.end())
    own->second.commit = commit;
  const bool is_safe = !commit.replicas.empty() || sim_.truth.manifests.contains(commit.manifest);
  if (!is_safe) return;  // Push() comes back.
  sim_.Call([this, commit, life = daemon_life_](const Sim::Reply& reply) {
    head_.Post(commit, [=, this](const absl::Status& status, const Answer& answer) {
      // Too early: its rows are not accepted yet. Asked again.
      if (!status.ok() && status.code() == absl::StatusCode::kUnavailable) return;
      // A shard of an incomplete checkpoint is no checkpoint; a refusal ends the wait of one rank
      // alone.
      const bool complete = answer.checkpoint != 0 || (!status.ok() && !commit.collective);
      reply([this, life, complete, ok = status.ok(), commit] {
        if (life != daemon_life_) return;
        Daemon(0, [this, complete, ok, commit] { TakeCommitted(commit, complete, ok); });
      });
    });
  });
  Daemon(500, [this, fence] { SendCommit(fence); });
}

void WorkerHost::TakeCommitted(const input::CommitCheckpoint& commit, bool complete, bool ok) {
  auto run = runs_.find(commit.fence);
  if (run == runs_.end() || !run->second.commit) return;
  if (run->second.commit->manifest != commit.manifest) return;
  if (auto replica = replicas_.find(commit.manifest); replica != replicas_.end())
    replica->second.is_settled = true;
  if (ok) run->second.settled = commit.row.seq;
  run->second.commit.reset();
  if (complete) NoteSaved(commit.fence, commit.row.seq);
}

// --- what it holds ------------------------------------------------------------------------------

void WorkerHost::Hold(const input::CommitCheckpoint& commit, bool is_copy) {
  sim_.truth.copies[commit.manifest][node_] = Copy::kThere;
  const uint64_t round = ++rounds_;
  replicas_[commit.manifest] = {commit.fence, commit.row.seq,       is_copy, false,
                                round,        ReplicaStatus::kNone, false};
  RenewLater(commit.manifest, round);
}

WorkerHost::Replica* WorkerHost::FindReplica(const std::string& manifest, uint64_t round) {
  auto replica = replicas_.find(manifest);
  return replica == replicas_.end() || replica->second.round != round ? nullptr : &replica->second;
}

// A daemon finds on its disk what the one before it held.
void WorkerHost::RecoverReplicas() {
  for (auto& [manifest, replica] : replicas_) {
    replica.is_pushing = false;
    replica.asked_until = 0;
    if (replica.status == ReplicaStatus::kStored) replica.status = ReplicaStatus::kNone;
    RenewLater(manifest, replica.round);
  }
}

void WorkerHost::RenewLater(const std::string& manifest, uint64_t round) {
  Daemon(sim_.Between(20, 500), [this, manifest, round] {
    Replica* replica = FindReplica(manifest, round);
    if (replica == nullptr) return;
    if (replica->asked_until <= sim_.now && MayAsk(manifest, *replica))
      AskToRenew(manifest, *replica);
    RenewLater(manifest, round);
  });
}

// Nobody needs what is not committed. So who trained does not ask while it may still be: a call may
// arrive late, as long as its attempt lives and no later checkpoint of it is known. Of a copy the
// head says whether that may be.
bool WorkerHost::MayAsk(const std::string& manifest, const Replica& replica) const {
  if (node_.value == 0 || seen_seq_ == 0) return false;  // Commits of before may be on their way.
  if (replica.is_settled || replica.is_copy) return true;
  auto run = runs_.find(replica.fence);
  if (run == runs_.end()) return true;
  const auto& commit = run->second.commit;
  return (!commit || commit->manifest != manifest) && run->second.settled > replica.seq;
}

// The bytes of the replica are gone, which the node notices when it asks next. A copy of its commit
// that was on its way comes after that, more often than at any other time.
void WorkerHost::Rot(const std::string& manifest, Replica& replica) {
  sim_.truth.copies[manifest][node_] = Copy::kRotten;
  replica.status = ReplicaStatus::kGone;
  if (replica.is_copy || !replica.is_settled) return;
  if (!sim_.Strikes(kLateAtRot * sim_.plan.duplicated, Fault::kDuplicated)) return;
  sim_.At(sim_.Between(200, 5'000), [this, commit = replica.commit] { head_.Post(commit, {}); });
}

// An attempt was placed that starts from a replica of this node: it rots now, more often than at
// any other time, and the node reports that at once.
void WorkerHost::MayRot(const std::string& manifest) {
  auto found = replicas_.find(manifest);
  if (found == replicas_.end() || node_.value == 0) return;
  if (found->second.status != ReplicaStatus::kNone) return;
  if (!sim_.Strikes(kRotsAtStart * sim_.plan.replica_gone, Fault::kReplicaGone)) return;
  Rot(manifest, found->second);
  Daemon(0, [this, manifest, round = found->second.round] {
    Replica* lost = FindReplica(manifest, round);
    if (lost != nullptr && MayAsk(manifest, *lost)) AskToRenew(manifest, *lost);
  });
}

void WorkerHost::AskToRenew(const std::string& manifest, Replica& replica) {
  if (replica.status == ReplicaStatus::kNone &&
      sim_.Strikes(sim_.plan.replica_gone, Fault::kReplicaGone))
    Rot(manifest, replica);
  if (replica.status == ReplicaStatus::kGone) {
    auto& said = sim_.truth.said_gone;
    sim_.At(kMessageLasts, [&said, word = said.emplace(manifest, node_)] { said.erase(word); });
  }
  replica.asked_until = sim_.now + sim_.Between(500, 5'000);  // An answer may be lost.
  const Owner owner = replica.fence.attempt.owner;
  const input::RenewReplica ask{.node = node_,
                                .owner = owner,
                                .manifest = manifest,
                                .status = replica.status,
                                .seen_epoch = core_.epoch,
                                .is_early = replica.is_copy,
                                .incarnation = Incarnation(),
                                .attempt = replica.fence.attempt.number,
                                .row = replica.seq,
                                .generation = replica.fence.attempt.generation};
  const bool counted = auditor_.CountsOn(owner, manifest, node_);
  sim_.Call([=, this, round = replica.round, life = daemon_life_](const Sim::Reply& reply) {
    head_.Post(ask, [=, this](const absl::Status& status, const Answer& answer) {
      Require(status.ok() || absl::IsUnavailable(status), "a holder's question was refused");
      if (!status.ok()) {
        reply([=, this] { Daemon(0, [=, this] { MayAskAgain(manifest, round); }); });
        return;
      }
      Require(!answer.release || !counted || !auditor_.CountsOn(owner, manifest, ask.node),
              "a counted replica was released");
      reply([=, this, release = answer.release, push = answer.push] {
        if (life != daemon_life_) return;
        MayAskAgain(manifest, round);
        Daemon(0, [=, this] { TakeRenewal(manifest, round, release, push); });
      });
    });
  });
}

void WorkerHost::MayAskAgain(const std::string& manifest, uint64_t round) {
  if (Replica* replica = FindReplica(manifest, round); replica != nullptr) replica->asked_until = 0;
}

void WorkerHost::TakeRenewal(const std::string& manifest, uint64_t round, bool release, bool push) {
  Replica* replica = FindReplica(manifest, round);
  if (replica == nullptr) return;
  if (release) {
    DropCopy(manifest, Copy::kReleased);
    replicas_.erase(manifest);
    return;
  }
  if (!push || replica->is_pushing || replica->status != ReplicaStatus::kNone) return;
  replica->is_pushing = true;
  Daemon(sim_.Between(50, 1'500), [this, manifest, round] {
    Replica* pushed = FindReplica(manifest, round);
    if (pushed == nullptr || pushed->status != ReplicaStatus::kNone) return;
    sim_.truth.manifests.insert(manifest);
    pushed->status = ReplicaStatus::kStored;
  });
}

void WorkerHost::DropCopy(const std::string& manifest, Copy why) {
  Copy& copy = sim_.truth.copies.at(manifest).at(node_);
  if (copy == Copy::kThere) copy = why;
}

// The disk is another's from here on, or nobody's.
void WorkerHost::LoseDisk() {
  for (const auto& [manifest, replica] : replicas_) DropCopy(manifest, Copy::kLostDisk);
  replicas_.clear();
  runs_.clear();
  kept_barriers_.clear();
}

// --- what it fetches ----------------------------------------------------------------------------

WorkerHost::Fetched WorkerHost::Fetch(const Fence& fence, const std::string& checkpoint) {
  if (checkpoint.empty()) return Fetched::kHere;
  Truth& truth = sim_.truth;
  if (sim_.Strikes(sim_.plan.checkpoint_broken, Fault::kCheckpointBroken)) {
    truth.broken.insert(checkpoint);
    return Fetched::kNever;
  }
  if (truth.manifests.contains(checkpoint)) return Fetched::kHere;
  bool is_somewhere = false;
  for (const WorkerHost* host : sim_.hosts) {
    if (!host->present_ || !truth.IsThere(checkpoint, host->node_)) continue;
    if (host->daemon_up_) return Fetched::kHere;
    is_somewhere = true;
  }
  if (is_somewhere || MayComeBack(fence.attempt.owner, checkpoint)) return Fetched::kLater;
  truth.vanished.insert(checkpoint);
  return Fetched::kNever;
}

// Nobody who answers has it: whether the head waits for somebody who might.
bool WorkerHost::MayComeBack(const Owner& owner, const std::string& manifest) const {
  if (!head_.up()) return true;
  const State& state = head_.core().world.state;
  const Runs* runs = FindRuns(state, owner);
  if (runs == nullptr) return true;
  for (const Checkpoint& checkpoint : runs->checkpoints) {
    if (checkpoint.manifest != manifest) continue;
    if (!IsReachable(state, checkpoint)) return false;
    for (NodeId id : checkpoint.replicas) {
      const auto answers = [&](const WorkerHost* h) { return h->node_ == id && h->daemon_up_; };
      const Node& node = state.nodes.at(id);
      if (!node.lost && !node.gone && std::none_of(sim_.hosts.begin(), sim_.hosts.end(), answers))
        return true;
    }
    return sim_.rng.Chance(0.8);  // They may be about to say so themselves.
  }
  return false;
}

}  // namespace rt::sim
