// What the daemon of a node does to freeze a program, and to let it continue. Without faults of the
// run's plan, so that runs without freezes keep their course.
#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

constexpr uint64_t kFreezeFails = 8, kThawFails = 12;  // One of so many.

}  // namespace

bool WorkerHost::FreezeStrikes(uint64_t one_of, Fault fault) {
  if (sim_.calm || Mix64(static_cast<uint64_t>(sim_.now) + node_.value) % one_of != 0) return false;
  sim_.faults.Add(fault);
  return true;
}

// One that does not hear, or saves nothing, is frozen as it is.
void WorkerHost::SaveRun(const Fence& fence) {
  auto it = runs_.find(fence);
  if (it == runs_.end() || !it->second.alive) return;
  it->second.saving = it->second.hears && it->second.checkpoint_every > 0;
  if (!it->second.saving) Daemon(1, [this, fence] { Feed(worker::input::Saved{fence}); });
}

// The note is written before anything else is done.
void WorkerHost::FreezeRun(const Fence& fence, uint32_t round) {
  auto it = runs_.find(fence);
  if (it == runs_.end()) return;
  it->second.freeze_step = worker::FreezeStep::kFreezing;
  it->second.freeze_round = round;
  Daemon(sim_.Between(1, 1'500), [this, fence, round, pid = it->second.pid] {
    auto found = runs_.find(fence);
    if (found == runs_.end() || found->second.pid != pid || !found->second.alive) return;
    Run& run = found->second;
    if (!run.frozen && FreezeStrikes(kFreezeFails, Fault::kFreezeFailed)) {
      run.freeze_step = worker::FreezeStep::kNone;
      const bool is_broken = Mix64(static_cast<uint64_t>(sim_.now)) % 4 == 0;
      return Feed(worker::input::Frozen{fence, round, "its driver cannot", is_broken});
    }
    TruthRun& truth = sim_.truth.runs[fence];
    run.frozen = true;
    run.saving = false;
    run.freeze_step = worker::FreezeStep::kFrozen;
    truth.frozen_rounds.insert(round);
    truth.frozen_after = truth.rows.size();
    Feed(worker::input::Frozen{fence, round, "", false});
  });
}

void WorkerHost::ThawRun(const Fence& fence) {
  auto it = runs_.find(fence);
  if (it == runs_.end()) return;
  it->second.freeze_step = worker::FreezeStep::kThawing;
  Daemon(sim_.Between(1, 800), [this, fence, pid = it->second.pid] {
    auto found = runs_.find(fence);
    if (found == runs_.end() || found->second.pid != pid || !found->second.alive) return;
    Run& run = found->second;
    if (FreezeStrikes(kThawFails, Fault::kThawFailed)) {
      sim_.truth.runs[fence].killed_frozen = true;
      return Feed(worker::input::Thawed{fence, "its driver cannot", false});
    }
    if (run.frozen) CheckCapacity(run.body.resources);
    run.frozen = false;
    run.freeze_step = worker::FreezeStep::kNone;
    Feed(worker::input::Thawed{fence, "", false});
  });
}

// What runs out of memory is not asked whether it is frozen.
void WorkerHost::KillFrozen() {
  std::vector<std::pair<Fence, uint64_t>> frozen;
  for (const auto& [fence, run] : runs_)
    if (run.alive && run.frozen) frozen.emplace_back(fence, run.pid);
  for (const auto& [fence, pid] : frozen) {
    if (!FreezeStrikes(6, Fault::kFrozenKilled)) continue;
    sim_.truth.runs[fence].killed_frozen = true;
    EndProcess(fence, pid, 0, 9);
  }
}

}  // namespace rt::sim
