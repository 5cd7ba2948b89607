#include "tests/sim/head_host.h"

#include <utility>

#include "common/base/limits.h"
#include "tests/sim/worker_host.h"

namespace rt::sim {
namespace {

// The state's bytes are half of a seed's time when every batch is dumped.
constexpr uint64_t kDumpEvery = 16;

}  // namespace

void HeadHost::Start() {
  up_ = true;
  ++life_;
  started_at_ = sim_.now;
  shown_at_start_ = StartTime(core_.world.state, sim_.now + wall_skew_);
  sim_.truth.head_awake_since = Now();
  stopped_until_ = 0;
  drain_scheduled_ = false;
  versions_.clear();
  input::StartHead start{"cluster-1", "sim", "0.1.0"};
  start.pools = pools_;
  start.max_workers = max_workers_;
  start.node_types = node_types_;
  Enqueue({std::move(start), [](const auto&, const auto&) {}, {}});
  TickLater();
  FlushSinksLater();
}

void HeadHost::TickLater() {
  sim_.At(limits::kTickInterval, [this, life = life_] {
    if (life != life_) return;
    // A stopped process gets one tick when it runs again, however long it stood still.
    if (sim_.now >= stopped_until_) Enqueue({input::Tick{}, [](const auto&, const auto&) {}, {}});
    TickLater();
  });
}

void HeadHost::FlushSinksLater() {
  sim_.At(sim_.Between(50, 400), [this, life = life_] {
    if (life != life_) return;
    if (!log_.empty()) Post(input::SinksFlushed{log_.back().seq}, {});
    FlushSinksLater();
  });
}

void HeadHost::Post(Input input, AnswerFn done) {
  if (!up_) return;
  if (!done) done = [](const auto&, const auto&) {};
  Waiting waiting{std::move(input), std::move(done), {}};
  if (!TakenByOld(waiting)) Enqueue(std::move(waiting));
}

void HeadHost::PostSync(input::Sync sync, uint64_t seen, SyncFn done) {
  Waiting waiting{std::move(sync), {}, std::move(done), seen};
  if (up_ && !TakenByOld(waiting)) Enqueue(std::move(waiting));
}

// All of its batches were durable when it lost its place, so that nothing keeps it from answering
// what needs no record. Only what workers say: people and drivers ask anew where it ends.
bool HeadHost::TakenByOld(const Waiting& waiting) {
  const bool is_worker = std::holds_alternative<input::Sync>(waiting.input) ||
                         std::holds_alternative<input::Report>(waiting.input) ||
                         std::holds_alternative<input::CommitCheckpoint>(waiting.input) ||
                         std::holds_alternative<input::RenewReplica>(waiting.input) ||
                         std::holds_alternative<input::KeepOutputs>(waiting.input);
  if (!old_ || !is_worker || !sim_.rng.Chance(0.3)) return false;
  if (sim_.calm || sim_.now >= old_->until) {
    old_.reset();
    return false;
  }
  const auto* sync = std::get_if<input::Sync>(&waiting.input);
  if (sync != nullptr && sync->seen_epoch > old_->core.world.state.epoch) return true;
  const Millis now = sim_.now - old_->clock_behind;
  const bool is_silent = !Step(old_->core, input::Tick{}, now).records.empty();
  Outcome outcome;
  if (!is_silent) outcome = Step(old_->core, waiting.input, now);
  if (is_silent || !outcome.records.empty()) {
    sim_.faults.Add(Fault::kOldHeadFenced);
    old_.reset();
    return true;
  }
  sim_.faults.Add(Fault::kOldHeadAnswered);
  if (sync == nullptr) {
    waiting.done(outcome.verdict, outcome.answer);
    return true;
  }
  SyncReply reply{.known = outcome.verdict.ok(),
                  .epoch = old_->core.world.state.epoch,
                  .version = 1,
                  .durable_seq = old_->core.world.state.seq};
  if (reply.known) reply.desired = DesiredFor(old_->core.world, sync->node);
  std::set<Fence> listed;
  for (const Observed& observed : sync->observed) listed.insert(observed.fence);
  reply.bodies = BodiesFor(old_->core.world, reply.desired, listed);
  waiting.sync_done(reply);
  return true;
}

void HeadHost::TakeOver() {
  if (!up_) return;
  sim_.faults.Add(Fault::kTakenOver);
  std::optional<OldHead> old;
  if (in_flight_.empty()) {
    old = OldHead{core_, sim_.now - Now(), sim_.now + sim_.Between(1'000, 6'000)};
  }
  Crash();
  old_ = std::move(old);
}

void HeadHost::Enqueue(Waiting waiting) {
  inbox_.push_back(std::move(waiting));
  ScheduleDrain(sim_.Between(0, 4));
}

void HeadHost::ScheduleDrain(Millis delay) {
  if (drain_scheduled_) return;
  drain_scheduled_ = true;
  sim_.At(delay, [this, life = life_] {
    if (life != life_) return;
    drain_scheduled_ = false;
    Drain();
  });
}

void HeadHost::Drain() {
  if (sim_.now < stopped_until_) return ScheduleDrain(stopped_until_ - sim_.now);
  if (in_flight_.size() >= limits::kBatchesInFlightMax) return;  // Complete() goes on.
  InFlight batch;
  size_t most = 1 + sim_.rng.Below(8);
  while (!inbox_.empty() && most-- > 0) {
    Waiting waiting = std::move(inbox_.front());
    inbox_.pop_front();
    Handle(waiting, batch);
  }
  for (const input::LaneAnswered& overdue : lane_.Ask(core_, Now())) {
    Outcome outcome;
    StepInto(overdue, batch, outcome);
  }
  AnswerSyncs(batch);
  Append(std::move(batch));
  if (!inbox_.empty()) ScheduleDrain(sim_.Between(0, 2));
}

void HeadHost::StepInto(const Input& input, InFlight& batch, Outcome& outcome) {
  outcome = Step(core_, input, Now());
  // A refused input may come with records: leases run out and work is placed after every input.
  if (!outcome.records.empty()) CheckInvariants(core_);
  for (Record& record : outcome.records) batch.records.push_back(std::move(record));
  for (RowBatch& rows : outcome.rows) batch.rows.push_back(std::move(rows));
}

void HeadHost::Handle(Waiting& waiting, InFlight& batch) {
  const bool is_idle = std::holds_alternative<input::Tick>(waiting.input) ||
                       std::holds_alternative<input::SinksFlushed>(waiting.input);
  if (!is_idle) ++sim_.inputs;
  lane_.Take(waiting.input, core_.world.state.epoch);
  Outcome outcome;
  StepInto(waiting.input, batch, outcome);
  if (auto* sync = std::get_if<input::Sync>(&waiting.input)) {
    Require(!absl::IsUnavailable(outcome.verdict), "the leading head takes a node for another's");
    if (!outcome.verdict.ok()) {
      batch.effects.push_back([done = waiting.sync_done] { done({.known = false}); });
      return;
    }
    auto old = parked_.find(sync->node);
    if (old != parked_.end() && old->second.sync_seq > sync->sync_seq) return;
    Parked parked{.sync_seq = sync->sync_seq,
                  .until = sim_.now + limits::kSyncHold,
                  .done = waiting.sync_done,
                  .seen_epoch = sync->seen_epoch,
                  .seen_version = waiting.seen_version};
    for (const Observed& observed : sync->observed) parked.listed.insert(observed.fence);
    parked_[sync->node] = std::move(parked);
    return;
  }
  batch.effects.push_back([done = std::move(waiting.done), verdict = outcome.verdict,
                           answer = std::move(outcome.answer)] { done(verdict, answer); });
}

// As the loop does: answers those that have not seen what their node is to do now, or were held
// long enough.
void HeadHost::AnswerSyncs(InFlight& batch) {
  for (NodeId node : std::exchange(core_.soft.dirty, {})) ++versions_[node];
  for (auto it = parked_.begin(); it != parked_.end();) {
    auto& [node, parked] = *it;
    if (!core_.world.state.nodes.contains(node)) {
      it = parked_.erase(it);
      continue;
    }
    SyncReply reply{.epoch = core_.world.state.epoch,
                    .version = 1 + versions_[node],
                    .durable_seq = core_.world.state.seq};  // By the time that the reply leaves.
    if (parked.seen_epoch == reply.epoch && parked.seen_version == reply.version &&
        sim_.now < parked.until) {
      ++it;
      continue;
    }
    const auto known = core_.world.state.nodes.find(node);
    if (known != core_.world.state.nodes.end()) {
      for (const ClearedGpu& cleared : known->second.cleared_gpus)
        if (!cleared.heard) reply.cleared_gpus.push_back(cleared);
      reply.faulty_gpus = known->second.faulty_gpus;
    }
    reply.desired = DesiredFor(core_.world, node);
    reply.bodies = BodiesFor(core_.world, reply.desired, parked.listed);
    batch.effects.push_back([done = parked.done, reply = std::move(reply)] { done(reply); });
    it = parked_.erase(it);
  }
}

void HeadHost::Append(InFlight batch) {
  if (batch.records.empty()) {
    if (!in_flight_.empty()) {
      auto& effects = in_flight_.back().effects;
      for (auto& effect : batch.effects) effects.push_back(std::move(effect));
      return;
    }
    for (auto& effect : batch.effects) effect();
    return;
  }
  if (++appended_ % kDumpEvery == 0) batch.dump = CanonicalDump(core_.world.state);
  const Millis latency = sim_.rng.Chance(0.05) ? sim_.Between(50, 400) : sim_.Between(1, 15);
  batch.durable_at = sim_.now + latency;
  if (!in_flight_.empty()) {
    batch.durable_at = std::max(batch.durable_at, in_flight_.back().durable_at);
  }
  sim_.At(batch.durable_at - sim_.now, [this, life = life_] {
    if (life == life_) Complete();
  });
  in_flight_.push_back(std::move(batch));
}

void HeadHost::Complete() {
  InFlight batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  Keep(batch);
  for (auto& effect : batch.effects) effect();
  if (!inbox_.empty()) ScheduleDrain(0);
}

// The batch is on the disk from here on.
void HeadHost::Keep(InFlight& batch) {
  if (sim_.on_kept) sim_.on_kept(batch.records, batch.rows);
  auditor_.See(batch.records, batch.rows, sim_.truth);
  for (const Record& record : batch.records)
    Require(answers_.See(record).ok(), "an answer is what its algorithm computes from the records");
  for (const Record& record : batch.records)
    if (const auto* placed = std::get_if<event::AttemptPlaced>(&record.event))
      for (WorkerHost* host : sim_.hosts) host->MayRot(auditor_.StartOf(placed->attempt));
  for (Record& record : batch.records) log_.push_back(std::move(record));
  if (batch.dump.empty()) return;
  dump_ = std::move(batch.dump);
  dump_seq_ = log_.back().seq;
}

std::string HeadHost::CheckReplay() {
  std::string before = CanonicalDump(core_.world.state);
  if (!in_flight_.empty()) return before;
  Replay();
  Require(CanonicalDump(core_.world.state) == before, "the log does not give the state that runs");
  return before;
}

void HeadHost::Stop(Millis span) {
  if (!up_) return;
  stopped_until_ = std::max(stopped_until_, sim_.now + span);
  sim_.truth.head_awake_since = Now() + (stopped_until_ - sim_.now);
}

void HeadHost::Crash() {
  if (!up_) return;
  up_ = false;
  ++life_;
  sim_.faults.Add(in_flight_.empty() ? Fault::kHeadCrashed : Fault::kHeadCrashedBusy);
  size_t survive = sim_.rng.Below(in_flight_.size() + 1);
  if (survive < in_flight_.size()) sim_.faults.Add(Fault::kBatchesLost);
  for (size_t i = 0; i < survive; ++i) Keep(in_flight_[i]);
  in_flight_.clear();
  inbox_.clear();
  parked_.clear();
  lane_.Crash();
  Replay();
  if (sim_.Strikes(sim_.plan.clock_jumped, Fault::kClockJumped)) {
    wall_skew_ = sim_.Between(-3'600'000, 3'600'000);
  }
  sim_.At(sim_.Between(10, sim_.rng.Chance(0.2) ? 8'000 : 600), [this] { Start(); });
}

void HeadHost::Replay() {
  Core fresh;
  for (const Record& record : log_) {
    Apply(fresh.world, record);
    if (record.seq == dump_seq_ && CanonicalDump(fresh.world.state) != dump_)
      Fail("the replay of the durable prefix differs from the state at that seq");
  }
  CheckInvariants(fresh);
  // Every other time it starts from a snapshot: the index must come out fit to go on with.
  if (snapshot_ && sim_.rng.Chance(0.5)) {
    Core restored;
    restored.world.state = *snapshot_;
    Reindex(restored.world);
    for (const Record& record : log_) {
      if (record.seq > snapshot_->seq) Apply(restored.world, record);
    }
    Require(CanonicalDump(restored.world.state) == CanonicalDump(fresh.world.state),
            "snapshot and tail differ from the whole log");
    CheckInvariants(restored);
    core_ = std::move(restored);
  } else {
    core_ = std::move(fresh);
  }
  if (sim_.rng.Chance(0.5)) snapshot_ = core_.world.state;
}

}  // namespace rt::sim
