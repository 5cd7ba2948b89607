#include "tests/sim/worker_host.h"

#include <set>
#include <utility>

#include "common/base/limits.h"
#include "common/base/overloaded.h"

namespace rt::sim {

void WorkerHost::Boot() {
  ++boots_;
  StartDaemon();
}

void WorkerHost::StartDaemon() {
  daemon_up_ = true;
  ++daemon_life_;
  stopped_until_ = away_for_ = 0;
  heard_at_ = sim_.now;
  core_ = {.epoch = node_.value == 0 ? 0 : head_epoch_};
  seen_seq_ = seen_version_ = 0;
  sync_seq_ = sync_open_ = report_open_ = 0;
  bodies_.clear();
  StartBarriers();
  std::vector<Fence> ended;
  for (auto& [fence, run] : runs_) {
    run.announced_after.reset();
    run.measured.reset();
    if (run.exit) run.exit->witnessed = false;
    if (run.exit) ended.push_back(fence);
    if (run.is_silent && run.alive) WatchHang(fence, run);
    Feed(worker::input::Recovered{fence, run.pid, run.exit, run.body.keeps_port ? run.body.port : 0,
                                  run.suspended, run.orphaned, run.freeze_step, run.freeze_round});
  }
  for (const Fence& fence : ended) {
    Daemon(1, [this, fence] { Drain(fence); });
  }
  Daemon(sim_.Between(5, 100), [this] { SendSync(); });
  TickLater();
  ReportLater();
  for (auto& [fence, run] : runs_) {
    if (run.commit) Push(fence);
  }
  RecoverReplicas();
}

void WorkerHost::Daemon(Millis delay, Sim::Effect effect) {
  sim_.At(delay, [this, life = daemon_life_, effect = std::move(effect)] {
    if (life != daemon_life_ || !daemon_up_) return;
    const Millis wakes = std::max(stopped_until_, frozen_until_);
    if (sim_.now < wakes) return Daemon(wakes - sim_.now, effect);
    effect();
  });
}

void WorkerHost::TickLater() {
  Daemon(100, [this] {
    Feed(worker::input::Tick{});
    barriers_->Tick(sim_.now);
    TellPassed();
    if (sim_.plan.disconnect_stop > 0 && !sim_.calm && !core_.attempts.empty() &&
        sim_.now - heard_at_ >= sim_.plan.disconnect_stop) {
      sim_.faults.Add(Fault::kHeadAway);
      heard_at_ = sim_.now;
      Feed(worker::input::HeadAway{});
      // Who looks after the machine starts it again.
      if (sim_.rng.Chance(0.7)) Daemon(sim_.Between(1, 800), [this] { KillDaemon(); });
    }
    TickLater();
  });
}

void WorkerHost::KillDaemon() {
  if (!daemon_up_) return;
  sim_.faults.Add(Fault::kDaemonKilled);
  EndDaemon(5'000);
}

void WorkerHost::StopInOrder() {
  if (!daemon_up_ || node_.value == 0) return;
  sim_.faults.Add(Fault::kStoppedInOrder);
  away_for_ = sim_.Between(2'000, 10'000);
  sim_.truth.aways.insert({node_, Incarnation()});
  Daemon(0, [this] {
    SendSync();
    Daemon(sim_.Between(1, 300), [this] { EndDaemon(away_for_ + 3'000); });
  });
}

void WorkerHost::EndDaemon(Millis back_within) {
  daemon_up_ = false;
  // The head's provider may see it as well, before its connection closes or after that.
  if (node_.value != 0 && daemon_life_ % 4 == 3)
    sim_.At(15, [this] { head_.Post(input::DaemonEnded{name_}, {}); });
  sim_.At(sim_.Between(1, 30), [this, node = node_, life = daemon_life_] {
    head_.Post(input::Disconnected{node, node.value * 1'000'000 + life}, {});
  });
  sim_.At(sim_.Between(50, sim_.rng.Chance(0.5) ? 400 : back_within), [this, life = daemon_life_] {
    if (present_ && life == daemon_life_ && !daemon_up_) StartDaemon();
  });
}

void WorkerHost::LoseProcesses() {
  for (auto& [fence, run] : runs_) {
    if (!run.alive) continue;
    run.alive = run.frozen = false;
    run.exit = worker::ExitFacts{0, 9, false, false, "the node went down"};
    TruthRun& truth = sim_.truth.runs[fence];
    truth.exited = true;
    truth.signal = 9;
  }
}

void WorkerHost::Reboot(bool keep_disk) {
  if (!daemon_up_) return;
  sim_.faults.Add(keep_disk ? Fault::kNodeRebooted : Fault::kNodeReplaced);
  if (sim_.rng.Chance(0.5)) {
    head_.Post(input::Disconnected{node_, Incarnation()}, {});
  }
  daemon_up_ = false;
  LoseProcesses();
  if (!keep_disk) {
    sim_.truth.emptied.insert(node_);
    LoseDisk();
    node_ = {};
  } else if (sim_.rng.Chance(0.3)) {
    sim_.faults.Add(Fault::kRunsForgotten);
    for (const auto& [fence, run] : runs_) sim_.truth.runs[fence].forgotten = true;
    runs_.clear();
  }
  sim_.At(sim_.Between(400, 8'000), [this, life = daemon_life_] {
    if (present_ && life == daemon_life_) Boot();
  });
}

void WorkerHost::LeaveForGood() {
  sim_.faults.Add(Fault::kNodeGone);
  sim_.truth.emptied.insert(node_);
  present_ = daemon_up_ = false;
  ++daemon_life_;
  LoseProcesses();
  LoseDisk();
}

void WorkerHost::StopDaemon(Millis span) {
  stopped_until_ = std::max(stopped_until_, sim_.now + span);
}
void WorkerHost::Freeze(Millis span) {
  frozen_until_ = std::max(frozen_until_, sim_.now + span);
}
Millis WorkerHost::Drain() {
  const Millis span = sim_.Between(2'000, 15'000);
  drain_until_ = sim_.now + span;
  return span;
}

// --- the worker core ----------------------------------------------------------------------------

void WorkerHost::Feed(const worker::WorkerInput& input) {
  for (const worker::Action& action : worker::Step(core_, input, sim_.now)) Perform(action);
}

void WorkerHost::Perform(const worker::Action& action) {
  std::visit(Overloaded{
                 [&](const worker::action::Prepare& a) { Prepare(a.fence); },
                 [&](const worker::action::Launch& a) {
                   Daemon(sim_.Between(1, 60), [this, fence = a.fence] { Launch(fence); });
                 },
                 [&](const worker::action::Signal& a) { SignalRun(a); },
                 [&](const worker::action::Suspend& a) { SuspendRun(a.fence); },
                 [&](const worker::action::Announce& a) { EvictRun(a.fence, true); },
                 [&](const worker::action::Recall& a) { EvictRun(a.fence, false); },
                 [&](const worker::action::Save& a) { SaveRun(a.fence); },
                 [&](const worker::action::Freeze& a) { FreezeRun(a.fence, a.round); },
                 [&](const worker::action::Thaw& a) { ThawRun(a.fence); },
                 [&](const worker::action::Dump&) {},  // Its stacks concern nobody here.
                 [&](const worker::action::Forget& a) {
                   auto it = runs_.find(a.fence);
                   Require(it == runs_.end() || !it->second.alive, "forgot a living program");
                   if (it != runs_.end() && it->second.kept_barrier != 0)
                     kept_barriers_[a.fence.attempt] = it->second.kept_barrier;
                   runs_.erase(a.fence);
                   bodies_.erase(a.fence);
                   OutputsOfForgotten(a.fence);
                 },
                 [&](const worker::action::SyncNow&) { Daemon(0, [this] { SendSync(); }); },
                 [&](const worker::action::SyncSoon&) {
                   Daemon(limits::kSyncDelayMax, [this] { SendSync(); });
                 },
             },
             action);
}

void WorkerHost::Prepare(const Fence& fence) {
  Daemon(sim_.Between(2, 200), [this, fence] {
    if (sim_.Strikes(sim_.plan.launch_failed, Fault::kLaunchFailed)) {
      const bool transient = sim_.rng.Chance(0.7);
      if (!transient) {
        TruthRun& truth = sim_.truth.runs[fence];
        truth.exited = truth.launch_failed = truth.witnessed = true;
      }
      Feed(worker::input::Prepared{fence, false, transient, "no such bundle"});
      return;
    }
    auto body = bodies_.find(fence);
    if (body == bodies_.end()) return;
    const Fetched fetched = Fetch(fence, body->second.checkpoint);
    if (fetched == Fetched::kLater)
      return Feed(worker::input::Prepared{fence, false, true, "who has it is down"});
    if (fetched == Fetched::kNever) {
      TruthRun& truth = sim_.truth.runs[fence];
      truth.exited = truth.launch_failed = truth.witnessed = true;
      return Feed(worker::input::Prepared{fence, false, false, "a chunk is damaged", 0, true});
    }
    uint32_t& port = body->second.port;
    if (body->second.keeps_port) {
      if (port == 0) port = static_cast<uint32_t>(sim_.Between(20'000, 60'000));
      sim_.truth.ports[fence.attempt].insert(port);
    }
    Feed(worker::input::Prepared{fence, true, false, "", body->second.keeps_port ? port : 0});
  });
}

void WorkerHost::Launch(const Fence& fence) {
  auto body = bodies_.find(fence);
  if (body == bodies_.end()) return;
  auto earlier = runs_.find(fence);
  Require(earlier == runs_.end() || !earlier->second.alive, "launched while it runs");
  Require(auditor_.Accepted(fence) == 0, "started again after its rows were accepted");
  auditor_.CheckLaunch(body->second, sim_.truth);
  CheckGenerations(fence);
  CheckCapacity(body->second.resources);
  sim_.truth.runs[fence] = {.port = body->second.port};
  runs_.erase(fence);
  Run& run = runs_[fence];
  run.body = body->second;
  run.pid = next_pid_++;
  run.alive = true;
  run.iteration = run.body.iteration_base;
  run.awaits_decision = run.body.control.find("\"judged\":true") != std::string::npos;
  run.iterations_total = static_cast<double>(sim_.Between(2, 30));
  if (run.body.name.starts_with("quick"))
    run.iterations_total = static_cast<double>(sim_.Between(0, 2));
  if (run.body.name.starts_with("serve")) run.iterations_total = 1e9;  // Until it is released.
  if (run.body.world_size > 1) {  // They go in step.
    const Owner& owner = fence.attempt.owner;
    run.iterations_total = static_cast<double>(
        2 + Mix64(owner.group * 1'000 + owner.number * 10 + fence.attempt.number) % 29);
  }
  run.checkpoint_every = fence.rank == 0 ? sim_.rng.Below(5) : 0;
  const uint64_t draw = Mix64(fence.attempt.owner.group * 7'919 + fence.attempt.owner.number);
  run.collective = run.body.world_size > 1 && draw % 2 == 0;
  const bool saves = fence.rank == 0 || draw % 8 < 6;  // Every rank, or rank 0 alone.
  if (run.collective && saves) run.checkpoint_every = 1 + draw / 8 % 4;
  run.awaits_commit = sim_.rng.Chance(0.4);
  run.obedient = sim_.rng.Chance(0.7);
  run.hears = sim_.rng.Chance(0.8);
  run.stubborn = !run.obedient && sim_.rng.Chance(0.3);
  run.asks = fence.rank == 0 && !run.collective && sim_.rng.Chance(0.5);
  if (FailsPreflight(fence, run)) return;
  StartTraining(fence, run);
  OutputsOfStarted(fence);
  Feed(worker::input::Launched{fence, run.pid});
  ProcessLater(fence, run.pid, sim_.Between(10, 300));
}

void WorkerHost::SignalRun(const worker::action::Signal& asked) {
  const Fence fence = asked.fence;
  auto it = runs_.find(fence);
  if (it == runs_.end()) return;
  TruthRun& truth = sim_.truth.runs[fence];
  auto known = core_.attempts.find(fence);
  const bool is_asked = known != core_.attempts.end() && !known->second.stop;
  const bool is_evicting = is_asked && known->second.evicting;
  const bool is_first = !asked.kill || it->second.is_silent;  // A hung one: SIGKILL at once.
  // Also of one that has just ended by itself, which its daemon does not know yet.
  if (is_evicting && is_first && it->second.announced_after)
    truth.evicted_after = it->second.announced_after;
  if (!it->second.alive) return;
  Require(asked.kill || !it->second.frozen, "a frozen program hears no signal");
  truth.asked_to_stop = true;
  if (asked.suspended) it->second.suspended = true;
  if (!asked.kill && it->second.stubborn) it->second.hangs = true;
  if (!asked.kill && !it->second.obedient) return;
  const int32_t signal = asked.kill ? 9 : sim_.rng.Chance(0.5) ? 15 : 0;
  sim_.At(asked.kill ? 1 : sim_.Between(5, 400), [this, fence, pid = it->second.pid, signal] {
    EndProcess(fence, pid, 0, signal);
  });
}

void WorkerHost::SuspendRun(const Fence& fence) {
  auto it = runs_.find(fence);
  if (it == runs_.end() || !it->second.alive) return;
  it->second.suspending = it->second.hears;
  it->second.orphaned = core_.attempts.at(fence).orphaned;
  if (it->second.hears || fence.rank != 0) return;  // The others wait for rank 0.
  if (sim_.rng.Chance(0.5)) it->second.hangs = true;  // Until it is ended.
  Daemon(1, [this, fence] { Feed(worker::input::Saved{fence}); });
}

void WorkerHost::EvictRun(const Fence& fence, bool moving) {
  auto it = runs_.find(fence);
  if (it == runs_.end()) return;
  Run& run = it->second;
  if (!moving) {
    run.announced_after.reset();
    run.evicting_after.reset();
    sim_.truth.runs[fence].announced_after.reset();
    return;
  }
  // Also of one that has just ended by itself, which its daemon does not know yet.
  if (!run.announced_after) run.announced_after = run.seq;
  TruthRun& truth = sim_.truth.runs[fence];
  if (!truth.announced_after) truth.announced_after = run.seq;
  if (run.hears && !run.evicting_after) run.evicting_after = run.seq;
}

// --- control ------------------------------------------------------------------------------------

void WorkerHost::Join() {
  ++joins_;
  auto answered = [this, life = daemon_life_, join = joins_](NodeId node) {
    if (life != daemon_life_ || join != joins_ || node_.value != 0) return;
    node_ = node;
    Daemon(1, [this] { SendSync(); });
  };
  auto use = [this, answered](const std::string& token) {
    sim_.Call([this, token, answered](const Sim::Reply& reply) {
      head_.Post(input::UseToken{token, name_},
                 [reply, answered](const absl::Status& status, const Answer& answer) {
                   if (!status.ok()) return;
                   reply([answered, node = answer.node] { answered(node); });
                 });
    });
  };
  sim_.Call([this, use](const Sim::Reply& reply) {
    // The edge draws the token, so a call that is made twice makes two.
    const std::string token = name_ + "-" + std::to_string(++tokens_);
    head_.Post(input::CreateToken{token, "worker", 60'000, "", TokenName(), machine_},
               [reply, use, token](const absl::Status&, const Answer&) {
                 reply([use, token] { use(token); });
               });
  });
  Daemon(800, [this, join = joins_] {
    if (node_.value == 0 && join == joins_) Join();
  });
}

void WorkerHost::SendSync() {
  if (node_.value == 0) return Join();
  input::Sync sync{.node = node_, .incarnation = Incarnation()};
  sync.sync_seq = sync_open_ = ++sync_seq_;
  sync.seen_epoch = core_.epoch;
  sync.seen_seq = seen_seq_;
  sync.inventory.incarnation = sync.incarnation;
  sync.inventory.resources = size_;
  sync.inventory.address = name_ + ":1";
  sync.inventory.version = "0.1.0";
  AddGpus(sync.inventory);
  sync.inventory.boot_id = name_ + "." + std::to_string(boots_);
  sync.inventory.pid = daemon_life_;
  if (sim_.now < drain_until_) {
    sync.draining = true;
    sim_.truth.notices.insert(node_);
    sync.drain_reason = "notice";
    sync.drain_for = drain_until_ - sim_.now;
  }
  sync.away_for = away_for_;
  sync.observed = worker::ObservedList(core_);
  AddGpuFaults(sync.observed);
  AddProfiles(sync);
  sim_.Call([this, sync, seen = seen_version_, life = daemon_life_](const Sim::Reply& reply) {
    auto heard = [this, life, reply, seq = sync.sync_seq](const SyncReply& answer) {
      reply([this, life, seq, answer] {
        if (life == daemon_life_) Daemon(0, [this, seq, answer] { TakeReply(seq, answer); });
      });
    };
    head_.PostSync(sync, seen, std::move(heard));
  });
  Daemon(900, [this, seq = sync.sync_seq] {
    if (sync_open_ == seq) SendSync();
  });
}

void WorkerHost::TakeReply(uint64_t sync_seq, const SyncReply& reply) {
  if (sync_seq != sync_open_) return;
  sync_open_ = 0;
  heard_at_ = sim_.now;
  if (!reply.known) {
    // Its identity is void: end everything, forget it, and join as somebody new.
    LoseProcesses();
    LoseDisk();
    bodies_.clear();
    core_ = {};
    node_ = {};
    ++daemon_life_;
    sim_.At(100, [this, life = daemon_life_] {
      if (present_ && life == daemon_life_) StartDaemon();
    });
    return;
  }
  ClearGpus(reply.cleared_gpus);
  QuarantineGpus(reply.faulty_gpus);
  std::set<Fence> brought;
  for (const LaunchSpec& body : reply.bodies) {
    bodies_.try_emplace(body.fence, body);
    brought.insert(body.fence);
  }
  worker::input::Desired desired;
  desired.epoch = reply.epoch;
  if (reply.epoch >= head_epoch_) {
    seen_seq_ = reply.durable_seq;
    seen_version_ = reply.version;
  }
  head_epoch_ = std::max(head_epoch_, reply.epoch);
  for (const DesiredAttempt& wanted : reply.desired) {
    desired.attempts.push_back({.fence = wanted.fence,
                                .stop = wanted.stop,
                                .has_body = brought.contains(wanted.fence),
                                .suspend = wanted.suspend,
                                .evict = wanted.evict,
                                .evict_by = wanted.evict_by,
                                .freeze = wanted.freeze});
    if (wanted.start_after.owner.is_trial())
      desired.attempts.back().start_after = Fence{wanted.start_after, 0};
    if (auto run = runs_.find(wanted.fence); run != runs_.end())
      run->second.decided_seq = std::max(run->second.decided_seq, wanted.decided_seq);
  }
  Feed(desired);
  for (const DesiredAttempt& wanted : reply.desired) {
    NoteComplete(wanted.fence, wanted.complete_seq);
    NoteRecorded(wanted.fence, wanted.profile_seq);
  }
  if (sync_open_ == 0) Daemon(1, [this] { if (sync_open_ == 0) SendSync(); });
}

// --- reports -------------------------------------------------------------------------------------

void WorkerHost::ReportLater() {
  Daemon(sim_.Between(10, 80), [this] {
    if (report_open_ == 0) SendReport();
    ReportLater();
  });
}

void WorkerHost::SendReport() {
  input::Report report{.node = node_, .seen_epoch = core_.epoch, .incarnation = Incarnation()};
  for (const auto& [fence, run] : runs_) {
    if (run.spool.empty()) continue;
    RowBatch& batch = report.batches.emplace_back(RowBatch{fence.attempt, fence.rank, {}});
    for (const Row& row : run.spool) {
      if (batch.rows.size() == 6) break;
      batch.rows.push_back(row);
      if (run.checkpoint_rows.contains(row.seq))
        report.rows_with_checkpoint.insert({fence, row.seq});
    }
  }
  if (report.batches.empty() || node_.value == 0) return;
  report_open_ = ++reports_sent_;
  sim_.Call([this, report, life = daemon_life_, id = report_open_](const Sim::Reply& reply) {
    head_.Post(report, [=, this](const absl::Status& status, const Answer& answer) {
      reply([this, life, id, ok = status.ok(), verdicts = answer.verdicts] {
        if (life != daemon_life_) return;
        Daemon(0, [this, id, ok, verdicts] {
          if (report_open_ == id) report_open_ = 0;
          if (!ok) return;
          for (const ReportVerdict& verdict : verdicts) TakeVerdict(verdict);
        });
      });
    });
  });
  Daemon(700, [this, id = report_open_] {
    if (report_open_ == id) report_open_ = 0;
  });
}

void WorkerHost::TakeVerdict(const ReportVerdict& verdict) {
  auto it = runs_.find(verdict.fence);
  if (it == runs_.end()) return;
  Run& run = it->second;
  if (verdict.stale) {
    run.spool.clear();
    return;
  }
  Require(auditor_.Accepted(verdict.fence) >= verdict.acked_seq, "acknowledged before durable");
  while (!run.spool.empty() && run.spool.front().seq <= verdict.acked_seq) run.spool.pop_front();
  run.acked = std::max(run.acked, verdict.acked_seq);
  if (!verdict.stop || !run.alive || !run.obedient) return;
  sim_.truth.runs[verdict.fence].asked_to_stop = true;
  sim_.At(sim_.Between(5, 200), [this, fence = verdict.fence, pid = run.pid] {
    EndProcess(fence, pid, 0, 0);
  });
}

}  // namespace rt::sim
