// A node's ranks that train together: what they read, and the barrier after each of their reports.
// The barriers are those of production (worker/session/barriers.h); daemons ask each other over the
// simulated network.
#include "tests/sim/worker_host.h"
#include "worker/session/socket_limits.h"

namespace rt::sim {
namespace {

// Of every second trial with several ranks.
bool TrainsTogether(const Owner& owner) {
  return owner.is_trial() && Mix64(owner.group * 31 + owner.number * 7) % 2 == 0;
}

}  // namespace

// Its checkpoint is all that the ranks saved together, each with its position.
void WorkerHost::StartTraining(const Fence& fence, Run& run) {
  const Owner& owner = fence.attempt.owner;
  // One that was resized to a single rank reads on.
  const bool reads = run.body.world_size > 1 || sim_.truth.readers.contains(owner);
  if (!reads || !TrainsTogether(owner)) return;
  sim_.truth.readers.insert(owner);
  run.shard.emplace(DataSet::Of(fence.attempt.owner), fence.rank, run.body.world_size);
  std::vector<std::string> manifests = run.body.checkpoint_shards;
  manifests.push_back(run.body.checkpoint);
  std::map<uint32_t, ShardPosition> positions;
  for (const std::string& manifest : manifests)
    if (const auto saved = sim_.truth.positions.find(manifest); saved != sim_.truth.positions.end())
      positions[saved->second.first] = saved->second.second;
  run.shard->Resume(positions);
}

// Whether there was another batch.
bool WorkerHost::TakeBatch(const Fence& fence, Run& run) {
  std::optional<DataBatch> batch = run.shard->Take();
  if (!batch) {
    auditor_.CheckReadAll(fence, sim_.truth);
    return false;
  }
  run.has_batch = true;
  sim_.truth.runs[fence].taken.push_back({run.seq + 1, *std::move(batch)});
  auditor_.CheckTaken(fence, sim_.truth);
  return true;
}

// A daemon that starts knows which barriers are passed; programs that wait say so again.
void WorkerHost::StartBarriers() {
  barriers_ = std::make_unique<worker::Barriers>();
  barriers_->SetEvents({.on_question = [this] { Daemon(0, [this] { AskPeers(); }); },
                        .on_passed = [this] { Daemon(0, [this] { TellPassed(); }); },
                        .keep =
                            [this](const AttemptId& attempt, uint64_t passed) {
                              if (auto run = runs_.find({attempt, 0}); run != runs_.end())
                                run->second.kept_barrier = passed;
                            },
                        .kept =
                            [this](const AttemptId& attempt) {
                              const auto run = runs_.find({attempt, 0});
                              if (run != runs_.end()) return run->second.kept_barrier;
                              const auto log = kept_barriers_.find(attempt);
                              return log == kept_barriers_.end() ? 0 : log->second;
                            }});
  open_calls_.clear();
  for (auto& [fence, run] : runs_) {
    run.is_waiting = false;
    if (run.exit) barriers_->NoteEnd(fence, sim_.now);
    else if (run.passed < run.barrier) ArriveLater(fence);
  }
}

void WorkerHost::ArriveLater(const Fence& fence) {
  Daemon(sim_.Between(0, 5), [this, fence] {
    auto it = runs_.find(fence);
    if (it == runs_.end() || !it->second.alive) return;
    it->second.is_waiting = true;
    barriers_->Arrive(it->second.body, it->second.barrier, sim_.now);
    TellPassed();
  });
}

void WorkerHost::TellPassed() {
  for (auto& [fence, run] : runs_) {
    if (!run.alive || !run.is_waiting) continue;
    const auto state = barriers_->StateOf(fence.attempt, run.barrier, sim_.now);
    const bool is_passed = state.passed >= run.barrier;
    if (!is_passed && state.ended.empty()) continue;
    run.is_waiting = false;
    Daemon(sim_.Between(0, 3), [=, this, fence = fence, pid = run.pid, number = run.barrier] {
      EndWait(fence, pid, number, is_passed);
    });
  }
}

// A rank that is told that the barrier cannot be passed raises an error.
void WorkerHost::EndWait(const Fence& fence, uint64_t pid, uint64_t number, bool is_passed) {
  auto it = runs_.find(fence);
  if (it == runs_.end() || it->second.pid != pid || !it->second.alive) return;
  if (!is_passed) return EndProcess(fence, pid, 1, 0);
  auditor_.CheckPassed(fence, number, sim_.truth);
  it->second.passed = std::max(it->second.passed, number);
}

void WorkerHost::AskPeers() {
  for (const worker::BarrierQuestion& question : barriers_->TakeQuestions(sim_.now)) {
    PeerCall call{question.attempt, ++calls_, nullptr, 0, sim_.now + limits::kBarrierHold + 5'000};
    for (WorkerHost* host : sim_.hosts)
      if (host->present_ && host->node_.value == question.node) call.peer = host;
    if (call.peer != nullptr) {
      call.peer_life = call.peer->daemon_life_;
      SendQuestion(*call.peer, question, call.id);
    }
    open_calls_.insert(call.id);
    Daemon(sim_.Between(1, 50), [this, call] { WatchCall(call); });
  }
}

void WorkerHost::SendQuestion(WorkerHost& peer, const worker::BarrierQuestion& question,
                              uint64_t call) {
  auto arrive = [this, &peer, question, call, node = node_.value, life = daemon_life_] {
    peer.Daemon(0, [=, this, &peer] {
      auto reply = [=, this](const worker::BarrierState& state) {
        if (sim_.Strikes(sim_.plan.lost_after, Fault::kLostAfter)) return;
        sim_.At(sim_.Between(1, 20), [=, this] {
          if (life != daemon_life_) return;
          Daemon(0, [=, this] {
            if (open_calls_.erase(call) != 0)
              barriers_->TakeAnswer(question.attempt, state, sim_.now);
          });
        });
      };
      peer.barriers_->Answer(question, node, sim_.now, reply);
    });
  };
  if (sim_.Strikes(sim_.plan.lost_before, Fault::kLostBefore)) return;
  if (sim_.Strikes(sim_.plan.duplicated, Fault::kDuplicated))
    sim_.At(sim_.Between(1, 8'000), arrive);
  const bool is_late = sim_.Strikes(sim_.plan.reordered, Fault::kReordered);
  sim_.At(is_late ? sim_.Between(50, 1'200) : sim_.Between(1, 20), arrive);
}

// The connection breaks when the other daemon ends.
void WorkerHost::WatchCall(const PeerCall& call) {
  if (!open_calls_.contains(call.id)) return;
  const WorkerHost* peer = call.peer;
  const bool is_broken = peer == nullptr || !peer->daemon_up_ ||
                         peer->daemon_life_ != call.peer_life || sim_.now >= call.until;
  if (!is_broken) return Daemon(200, [this, call] { WatchCall(call); });
  open_calls_.erase(call.id);
  barriers_->TakeAnswer(call.attempt, std::nullopt, sim_.now);
}

}  // namespace rt::sim
