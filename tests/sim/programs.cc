// The programs of a node: fake training that reports, saves, ends and fails.
#include "tests/sim/worker_host.h"

namespace rt::sim {

std::string WorkerHost::Describe() const {
  std::string text = "\n  " + name_ + " is node " + std::to_string(node_.value);
  if (!present_) return text + ", gone";
  text += daemon_up_ ? "" : ", daemon down";
  for (const auto& [fence, attempt] : core_.attempts) {
    text += "\n    " + ToString(fence) + " stage " +
            std::to_string(static_cast<int>(attempt.stage)) + (attempt.wanted ? "" : " unwanted");
  }
  for (const auto& [fence, run] : runs_) {
    text += "\n    run " + ToString(fence) + (run.alive ? " alive" : " ended") + " seq " +
            std::to_string(run.seq) + " acked " + std::to_string(run.acked) + " spool " +
            std::to_string(run.spool.size()) + (run.commit ? " commits" : "") +
            (run.passed < run.barrier ? " at barrier " + std::to_string(run.barrier) : "") +
            (run.awaits_decision ? " judged " + std::to_string(run.decided_seq) : "");
  }
  for (const auto& [manifest, replica] : replicas_) {
    text += "\n    holds " + manifest + (replica.is_copy ? " for another" : "") +
            (replica.is_pushing ? " pushes" : "");
  }
  return text;
}

// Whatever anybody believes: what runs on a machine at once fits it.
void WorkerHost::CheckCapacity(const Resources& wanted) const {
  int64_t cpu = wanted.cpu;
  for (const auto& [fence, run] : runs_)
    cpu += run.alive && !run.frozen ? run.body.resources.cpu : 0;
  if (cpu > size_.cpu) Fail("more runs on a node than fits it" + Describe());
}

// Whatever anybody believes: another generation of the attempt does not run any more, here or
// elsewhere.
void WorkerHost::CheckGenerations(const Fence& fence) const {
  for (const WorkerHost* host : sim_.hosts) {
    for (const auto& [other, run] : host->runs_) {
      const bool is_other = other.attempt.owner == fence.attempt.owner &&
                            other.attempt.number == fence.attempt.number &&
                            other.attempt.generation != fence.attempt.generation;
      if (is_other && run.alive)
        Fail("two generations run at once: " + ToString(fence) + Describe());
    }
  }
}

void WorkerHost::ProcessLater(const Fence& fence, uint64_t pid, Millis delay) {
  sim_.At(delay, [this, fence, pid] {
    auto it = runs_.find(fence);
    if (it == runs_.end() || it->second.pid != pid || !it->second.alive) return;
    if (sim_.now < frozen_until_) return ProcessLater(fence, pid, frozen_until_ - sim_.now);
    if (it->second.frozen) return ProcessLater(fence, pid, 20);
    ProcessStep(fence, it->second);
  });
}

void WorkerHost::ProcessStep(const Fence& fence, Run& run) {
  if (run.commit && run.awaits_commit) return ProcessLater(fence, run.pid, 20);
  if (run.awaits_decision && run.decided_seq < run.seq) return ProcessLater(fence, run.pid, 20);
  if (run.passed < run.barrier) return ProcessLater(fence, run.pid, 10);
  if (run.hangs) return;
  if (!sim_.calm && run.body.watchdog_factor > 0 && sim_.rng.Chance(sim_.plan.trial_hung))
    return Hang(fence, run);
  // Who saves together with others waits until it is ended; who cannot save waits for rank 0.
  const bool ends_alone = !run.collective && fence.rank == 0;
  if (run.suspending && ends_alone && (run.checkpoint_every == 0 || sim_.rng.Chance(0.3))) {
    run.suspended = true;
    return EndProcess(fence, run.pid, 0, 0);
  }
  const bool has_saved = run.evicting_after && !run.checkpoint_rows.empty() &&
                         *run.checkpoint_rows.rbegin() > *run.evicting_after;
  if (has_saved && ends_alone && sim_.rng.Chance(0.5)) {
    run.suspended = true;
    TruthRun& truth = sim_.truth.runs[fence];
    if (!truth.evicted_after) truth.evicted_after = run.evicting_after;
    return EndProcess(fence, run.pid, 0, 0);
  }
  if (run.shard && !run.has_batch && !TakeBatch(fence, run))
    return EndProcess(fence, run.pid, 0, 0);
  if (MissesPeers(fence, run)) return ProcessLater(fence, run.pid, 50);
  if (!run.shard && run.iteration >= run.iterations_total) return EndProcess(fence, run.pid, 0, 0);
  if (!sim_.calm && sim_.rng.Chance(sim_.plan.trial_failed)) {
    TruthRun& truth = sim_.truth.runs[fence];
    truth.logged = sim_.rng.Chance(0.5);
    const int32_t exit_code = 1 + static_cast<int32_t>(sim_.rng.Below(2));
    truth.raised = fence.attempt.owner.is_executor() && truth.logged && exit_code == 2;
    return EndProcess(fence, run.pid, exit_code, 0);
  }
  run.iteration += 1;
  if (fence.attempt.owner.is_executor()) {
    // Tasks: neither reports nor checkpoints.
  } else if (fence.attempt.owner.is_job()) {
    sim_.on_driver_step(fence.attempt.owner.job(), run.iteration, [this, fence, pid = run.pid] {
      auto it = runs_.find(fence);
      return it != runs_.end() && it->second.pid == pid && it->second.alive;
    });
  } else {
    Report(fence, run);
  }
  ProcessLater(fence, run.pid, sim_.Between(20, 250));
}

void WorkerHost::Report(const Fence& fence, Run& run) {
  Row row;
  row.seq = ++run.seq;
  row.iteration = run.iteration;
  row.time_total_s = run.body.time_total_base_s + 0.1 * static_cast<double>(run.seq);
  row.timestamp = sim_.now;
  // Few values, so that ties occur; now and then none, or one that is not a number.
  const uint64_t draw = sim_.rng.Below(40);
  row.metrics = draw == 39   ? R"({"other":1})"
                : draw == 38 ? R"({"loss":"NaN"})"
                             : "{\"loss\":" + std::to_string(draw) + ".5}";
  run.spool.push_back(row);
  sim_.truth.runs[fence].rows.push_back(row);
  const bool is_due = run.checkpoint_every > 0 && run.seq % run.checkpoint_every == 0;
  if (is_due || (run.evicting_after && run.asks) || run.saving) {
    run.saving = false;
    input::CommitCheckpoint commit;
    commit.fence = fence;
    commit.node = node_;
    commit.manifest = ToString(fence) + "@" + std::to_string(run.seq);
    commit.row = row;
    commit.bytes = 1'000;
    commit.collective = run.collective;
    run.commit = commit;
    run.checkpoint_rows.insert(row.seq);
    if (fence.rank != 0) sim_.truth.runs[fence].checkpoint_rows.insert(row.seq);
    if (run.shard) sim_.truth.positions[commit.manifest] = {fence.rank, run.shard->position()};
    Push(fence);
  }
  if (!run.shard) return;
  run.has_batch = false;
  if (run.body.world_size < 2) return;
  uint64_t& arrived = sim_.truth.arrived[fence];
  arrived = std::max(arrived, ++run.barrier);
  ArriveLater(fence);
}

// As a collective operation does: it waits for ever for a rank that is not there yet, or that has
// gone by itself, or that waits elsewhere, or that has no batch for this step yet.
bool WorkerHost::MissesPeers(const Fence& fence, const Run& run) const {
  for (uint32_t rank = 0; rank < run.body.world_size; ++rank) {
    if (rank == fence.rank) continue;
    auto peer = sim_.truth.runs.find({fence.attempt, rank});
    if (peer == sim_.truth.runs.end() || peer->second.port != run.body.port) return true;
    const TruthRun& truth = peer->second;
    if (truth.exited && (truth.exit_code != 0 || truth.signal != 0 || truth.launch_failed))
      return true;
    if (run.shard && truth.taken.size() < sim_.truth.runs.at(fence).taken.size()) return true;
  }
  return false;
}

// Bytes first: they are durable, as the experiment wants it, before anybody asks for the commit. A
// daemon that dies on the way pushes again when it is back; a node that dies takes what was not
// committed along.
void WorkerHost::Push(const Fence& fence) {
  Daemon(sim_.Between(1, 300), [this, fence] {
    auto it = runs_.find(fence);
    if (it == runs_.end() || !it->second.commit) return;
    Secure(it->second, *it->second.commit);
    SendCommit(fence);
  });
}

void WorkerHost::EndProcess(const Fence& fence, uint64_t pid, int32_t exit_code, int32_t signal) {
  auto it = runs_.find(fence);
  if (it == runs_.end() || it->second.pid != pid || !it->second.alive) return;
  if (it->second.frozen && signal != 9) return;  // It would, if it ran.
  it->second.alive = it->second.frozen = false;
  it->second.exit = worker::ExitFacts{exit_code, signal, true, false, ""};
  TruthRun& truth = sim_.truth.runs[fence];
  truth.exited = true;
  truth.exit_code = exit_code;
  truth.signal = signal;
  if (!daemon_up_) {
    sim_.faults.Add(Fault::kExitUnseen);
    return;
  }
  Daemon(sim_.Between(0, 10), [this, fence, pid] {
    auto run = runs_.find(fence);
    if (run == runs_.end() || run->second.pid != pid) return;
    TruthRun& seen = sim_.truth.runs[fence];
    seen.witnessed = true;
    if (seen.exit_code != 0) sim_.faults.Add(Fault::kTrialFailed);
    barriers_->NoteEnd(fence, sim_.now);
    Feed(worker::input::Exited{fence, *run->second.exit});  // May forget the run.
    Daemon(sim_.Between(0, 30), [this, fence] { Drain(fence); });
  });
}

// Its end is told once its last checkpoint is committed, or refused.
void WorkerHost::Drain(const Fence& fence) {
  auto ended = runs_.find(fence);
  if (ended == runs_.end()) return;
  if (ended->second.commit) return Daemon(20, [this, fence] { Drain(fence); });
  const TruthRun& truth = sim_.truth.runs[fence];
  worker::Error error;
  if (truth.raised) error = {"ValueError", "no data", "Traceback"};
  Feed(worker::input::Drained{fence, ended->second.seq, error, ended->second.suspended,
                              truth.logged ? std::vector<uint32_t>{0} : std::vector<uint32_t>{}});
}

// What was reported before it was told is no answer to that. What answers nothing is the core's
// to ignore.
void WorkerHost::NoteSaved(const Fence& fence, uint64_t seq) {
  auto run = runs_.find(fence);
  if (run == runs_.end()) return;
  auto known = core_.attempts.find(fence);
  const bool is_suspend = known != core_.attempts.end() && known->second.suspend_at.has_value();
  const std::optional<uint64_t> announced = run->second.announced_after;
  if (is_suspend || !announced || seq > *announced) Feed(worker::input::Saved{fence});
}

void WorkerHost::NoteComplete(const Fence& fence, uint64_t complete_seq) {
  auto run = runs_.find(fence);
  if (run == runs_.end() || !run->second.collective || complete_seq <= run->second.complete) return;
  run->second.complete = complete_seq;
  NoteSaved(fence, complete_seq);
}

// It says nothing more until its watchdog ends it.
void WorkerHost::Hang(const Fence& fence, Run& run) {
  run.hangs = run.is_silent = true;
  sim_.faults.Add(Fault::kTrialHung);
  WatchHang(fence, run);
}

void WorkerHost::WatchHang(const Fence& fence, const Run& run) {
  Daemon(sim_.Between(500, 2'000), [this, fence, pid = run.pid] {
    auto it = runs_.find(fence);
    if (it == runs_.end() || it->second.pid != pid || !it->second.alive) return;
    const auto known = core_.attempts.find(fence);
    if (known != core_.attempts.end() && worker::IsStopped(known->second))
      return WatchHang(fence, it->second);
    sim_.truth.runs[fence].hung = true;
    Feed(worker::input::Hung{fence, "it hangs"});
  });
}

}  // namespace rt::sim
