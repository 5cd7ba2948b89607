// A node's checkpoints: where their bytes go, the commit, what it holds on the store's behalf until
// the store has it, and what it fetches.
#include <algorithm>

#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

using News = input::KeepCheckpoint::News;

// So long a word may be under way, or in a head that has not written down yet what follows from it.
constexpr Millis kWordLasts = 10'000;
constexpr double kRotsAtNeed = 20;  // Times as often as whenever it asks.

}  // namespace

// To the store, or to this node's disk and another's, which the commit then says.
void WorkerHost::Secure(const Run& run, input::CommitCheckpoint& commit) {
  commit.held_by.clear();
  const DurableAfter where = run.body.durable_after;
  WorkerHost* peer = where == DurableAfter::kPeer ? FindPeer() : nullptr;
  const bool is_held = where == DurableAfter::kLocal || peer != nullptr;
  if (run.together || !is_held) {
    sim_.truth.manifests.insert(commit.manifest);
    return;
  }
  commit.held_by.push_back(node_);
  Hold(commit, false);
  if (peer == nullptr) return;
  commit.held_by.push_back(peer->node_);
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
  const bool is_safe = !commit.held_by.empty() || sim_.truth.manifests.contains(commit.manifest);
  if (!is_safe) return;  // Push() comes back.
  sim_.Call([this, commit, life = daemon_life_](const Sim::Reply& reply) {
    head_.Post(commit, [=, this](const absl::Status& status, const Answer& answer) {
      // Too early: its rows are not accepted yet. Asked again.
      if (!status.ok() && status.code() == absl::StatusCode::kUnavailable) return;
      // A part of one that is not whole is no checkpoint; a refusal ends the wait of one alone.
      const bool whole = answer.checkpoint != 0 || (!status.ok() && !commit.together);
      reply([this, life, whole, ok = status.ok(), commit] {
        if (life != daemon_life_) return;
        Daemon(0, [this, whole, ok, commit] { TakeCommitted(commit, whole, ok); });
      });
    });
  });
  Daemon(500, [this, fence] { SendCommit(fence); });
}

void WorkerHost::TakeCommitted(const input::CommitCheckpoint& commit, bool whole, bool ok) {
  auto run = runs_.find(commit.fence);
  if (run == runs_.end() || !run->second.commit) return;
  if (run->second.commit->manifest != commit.manifest) return;
  if (auto held = held_.find(commit.manifest); held != held_.end()) held->second.is_settled = true;
  if (ok) run->second.settled = commit.row.seq;
  run->second.commit.reset();
  if (whole) NoteSaved(commit.fence, commit.row.seq);
}

// --- what it holds ------------------------------------------------------------------------------

void WorkerHost::Hold(const input::CommitCheckpoint& commit, bool is_copy) {
  sim_.truth.held[commit.manifest][node_] = Copy::kThere;
  const uint64_t turn = ++holds_;
  held_[commit.manifest] = {commit.fence, commit.row.seq, is_copy, false, turn, News::kNone, false};
  KeepLater(commit.manifest, turn);
}

WorkerHost::Held* WorkerHost::FindHeld(const std::string& manifest, uint64_t turn) {
  auto held = held_.find(manifest);
  return held == held_.end() || held->second.turn != turn ? nullptr : &held->second;
}

// A daemon finds on its disk what the one before it held.
void WorkerHost::RecoverHeld() {
  for (auto& [manifest, held] : held_) {
    held.is_pushing = false;
    held.asked_until = 0;
    if (held.news == News::kStored) held.news = News::kNone;
    KeepLater(manifest, held.turn);
  }
}

void WorkerHost::KeepLater(const std::string& manifest, uint64_t turn) {
  Daemon(sim_.Between(20, 500), [this, manifest, turn] {
    Held* held = FindHeld(manifest, turn);
    if (held == nullptr) return;
    if (held->asked_until <= sim_.now && MayAsk(manifest, *held)) AskToKeep(manifest, *held);
    KeepLater(manifest, turn);
  });
}

// Nobody needs what is not committed. So who trained does not ask while it may still be: a call may
// arrive late, as long as its attempt lives and no later checkpoint of it is known. Of a copy the
// head says whether that may be.
bool WorkerHost::MayAsk(const std::string& manifest, const Held& held) const {
  if (node_.value == 0 || seen_seq_ == 0) return false;  // Commits of before may be on their way.
  if (held.is_settled || held.is_copy) return true;
  auto run = runs_.find(held.fence);
  if (run == runs_.end()) return true;
  const auto& commit = run->second.commit;
  return (!commit || commit->manifest != manifest) && run->second.settled > held.seq;
}

// Its bytes are gone, which the node finds out when it asks next.
void WorkerHost::Rot(const std::string& manifest, Held& held) {
  sim_.truth.held[manifest][node_] = Copy::kRotten;
  held.news = News::kGone;
}

// Somebody was placed who goes on from what this node has: that rots just then, more often than at
// any other time, and is said at once.
void WorkerHost::MayRot(const std::string& manifest) {
  auto held = held_.find(manifest);
  if (held == held_.end() || held->second.news != News::kNone || node_.value == 0) return;
  if (!sim_.Strikes(kRotsAtNeed * sim_.plan.held_gone, Fault::kHeldGone)) return;
  Rot(manifest, held->second);
  Daemon(0, [this, manifest, turn = held->second.turn] {
    Held* lost = FindHeld(manifest, turn);
    if (lost != nullptr && MayAsk(manifest, *lost)) AskToKeep(manifest, *lost);
  });
}

void WorkerHost::AskToKeep(const std::string& manifest, Held& held) {
  if (held.news == News::kNone && sim_.Strikes(sim_.plan.held_gone, Fault::kHeldGone))
    Rot(manifest, held);
  if (held.news == News::kGone) {
    auto& said = sim_.truth.said_gone;
    sim_.At(kWordLasts, [&said, word = said.emplace(manifest, node_)] { said.erase(word); });
  }
  held.asked_until = sim_.now + sim_.Between(500, 5'000);  // An answer may be lost.
  const Owner owner = held.fence.attempt.owner;
  const input::KeepCheckpoint ask{.node = node_,
                                  .owner = owner,
                                  .manifest = manifest,
                                  .news = held.news,
                                  .seen_epoch = core_.epoch,
                                  .is_early = held.is_copy,
                                  .incarnation = Incarnation(),
                                  .attempt = held.fence.attempt.number,
                                  .row = held.seq};
  const bool counted = auditor_.CountsOn(owner, manifest, node_);
  sim_.Call([=, this, turn = held.turn, life = daemon_life_](const Sim::Reply& reply) {
    head_.Post(ask, [=, this](const absl::Status& status, const Answer& answer) {
      Require(status.ok() || absl::IsUnavailable(status), "a holder's question was refused");
      if (!status.ok()) {
        reply([=, this] { Daemon(0, [=, this] { MayAskAgain(manifest, turn); }); });
        return;
      }
      Require(!answer.let_go || !counted || !auditor_.CountsOn(owner, manifest, ask.node),
              "who is counted on was told to let go");
      reply([=, this, let_go = answer.let_go, push = answer.push] {
        if (life != daemon_life_) return;
        MayAskAgain(manifest, turn);
        Daemon(0, [=, this] { TakeKept(manifest, turn, let_go, push); });
      });
    });
  });
}

void WorkerHost::MayAskAgain(const std::string& manifest, uint64_t turn) {
  if (Held* held = FindHeld(manifest, turn); held != nullptr) held->asked_until = 0;
}

void WorkerHost::TakeKept(const std::string& manifest, uint64_t turn, bool let_go, bool push) {
  Held* held = FindHeld(manifest, turn);
  if (held == nullptr) return;
  if (let_go) {
    DropCopy(manifest, Copy::kLetGo);
    held_.erase(manifest);
    return;
  }
  if (!push || held->is_pushing || held->news != News::kNone) return;
  held->is_pushing = true;
  Daemon(sim_.Between(50, 1'500), [this, manifest, turn] {
    Held* pushed = FindHeld(manifest, turn);
    if (pushed == nullptr || pushed->news != News::kNone) return;
    sim_.truth.manifests.insert(manifest);
    pushed->news = News::kStored;
  });
}

void WorkerHost::DropCopy(const std::string& manifest, Copy why) {
  Copy& copy = sim_.truth.held.at(manifest).at(node_);
  if (copy == Copy::kThere) copy = why;
}

// The disk is another's from here on, or nobody's.
void WorkerHost::LoseDisk() {
  for (const auto& [manifest, held] : held_) DropCopy(manifest, Copy::kLostDisk);
  held_.clear();
  runs_.clear();
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
    for (NodeId id : checkpoint.held_by) {
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
