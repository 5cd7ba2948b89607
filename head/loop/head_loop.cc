#include "head/loop/head_loop.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "common/base/busy.h"
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/overloaded.h"
#include "common/base/status.h"
#include "common/run/clock.h"
#include "common/run/failpoint.h"
#include "head/core/pools.h"
#include "head/journal/replay.h"
#include "head/loop/compute_lane.h"
#include "head/loop/parked_syncs.h"
#include "head/loop/snapshotter.h"
#include "head/loop/unread_specs.h"

namespace rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct PostItem {
  Input input;
  HeadLoop::AnswerFn done;
};
struct SyncItem {
  input::Sync sync;
  SyncSeen seen;
  HeadLoop::SyncFn done;
};
struct WakeItem {
  NodeId node;
};
struct QueryItem {
  std::function<void(const Core&)> read;
  std::function<void(absl::Status)> done;
};
using Item = std::variant<PostItem, SyncItem, WakeItem, QueryItem>;

// A Sync that a newer one of its node has taken the place of.
struct Released {
  NodeId node;
  ParkedSync sync;
  bool is_awaited = false;  // The worker said so.
};

// What leaves once the journal has `seq`. A status other than OK: it never will.
struct Effect {
  uint64_t seq = 0;
  std::function<void(absl::Status)> run;
};

// The wall clock at the start plus what a steady clock counted since: it never jumps.
std::function<Millis()> SteadyWallClock() {
  const Millis ahead = WallClock() - SteadyClock();
  return [ahead] { return ahead + SteadyClock(); };
}

absl::Status Stopping() { return absl::UnavailableError("the head is stopping"); }

class Loop final : public HeadLoop {
 public:
  Loop(Journal& journal, Options options);
  ~Loop() override;
  absl::Status Begin(input::StartHead start, std::optional<World> followed);

  void Post(Input input, AnswerFn done) override;
  void PostSync(input::Sync sync, SyncSeen seen, SyncFn done) override;
  void Wake(NodeId node) override;
  void Query(std::function<void(const Core&)> read,
             std::function<void(absl::Status)> done) override;
  void OnDurable(std::function<void(uint64_t durable_seq)> changed) override;
  const Members& members() const override { return members_; }
  MachineWatch& machine_watch() override { return machine_watch_; }
  uint64_t epoch() const override { return epoch_; }
  uint64_t durable_seq() const override { return journal_.durable_seq(); }
  std::optional<uint64_t> shipped_seq() const override { return journal_.shipped_seq(); }
  uint64_t bytes_synced() const override { return journal_.bytes_synced(); }

 private:
  bool Enqueue(Item& item, size_t limit);
  void Run();
  SteadyTime NextWake();
  std::optional<std::vector<Item>> TakeItems(SteadyTime wake);
  void Handle(Item item);
  void HandleSync(SyncItem item);
  Outcome StepOnce(const Input& input);
  Millis Now() const { return options_.wall_clock() + ahead_of_wall_; }
  bool HasSpace() const;
  void EndOfBatch(SteadyTime now);
  void Reply(NodeId node, ParkedSync sync);
  void AfterDurable(std::function<void(absl::Status)> run);
  void Submit();
  void OnAppended(absl::Status status);
  void Release();
  void Die(const absl::Status& status);
  void Drain();

  Journal& journal_;
  Options options_;

  // The core thread's.
  Core core_;
  uint64_t epoch_ = 0;  // Never changes once the core thread runs.
  Batch batch_;  // Records and rows that are not yet handed to the journal.
  ParkedSyncs parked_;
  std::set<NodeId> behind_;     // Their Sync is answered when this batch of inputs is done.
  std::vector<Released> released_;  // So are these, for which newer ones are parked.
  std::deque<Effect> effects_;  // Ascending by seq.
  SteadyTime next_tick_{};
  Millis last_now_ = 0;
  Millis ahead_of_wall_ = 0;  // When the wall clock was set back while no head ran.
  uint64_t inputs_until_check_ = 0;
  uint64_t announced_seq_ = 0;
  std::optional<Snapshotter> snapshotter_;
  Members members_;
  MachineWatch machine_watch_;
  std::optional<ComputeLane> lane_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::deque<Item> inbox_;
  std::vector<std::function<void(uint64_t)>> on_durable_;
  std::deque<Millis> in_flight_;  // Batches: when each was handed to the journal.
  bool durable_changed_ = false;
  bool stopping_ = false;
  absl::Status failure_;
  std::thread thread_;
};

Loop::Loop(Journal& journal, Options options) : journal_(journal), options_(std::move(options)) {
  if (!options_.wall_clock) options_.wall_clock = SteadyWallClock();
  inputs_until_check_ = options_.inputs_per_check;
  lane_.emplace([this](Input answered) {  // One at most of each experiment, and one of sizes.
    Item item = PostItem{std::move(answered), {}};
    Enqueue(item, SIZE_MAX);
  });
  if (!options_.on_fatal) {
    options_.on_fatal = [](const absl::Status& status) {
      RT_LOG(kError) << "the journal failed, replay is the recovery: " << status.message();
      std::abort();
    };
  }
}

Loop::~Loop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  lane_.reset();
  snapshotter_.reset();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return in_flight_.empty(); });
}

absl::Status Loop::Begin(input::StartHead start, std::optional<World> followed) {
  ReachFailpoint("head.start.before_replay");
  absl::StatusOr<Replayed> begun = followed.has_value()
                                       ? ReplayOn(journal_, *std::move(followed))
                                       : Replay(journal_);
  if (!begun.ok()) return begun.status();
  Replayed replayed = *std::move(begun);
  core_.world = std::move(replayed.world);
  if (core_.world.state.seq != journal_.durable_seq()) {
    return absl::DataLossError("replay: the journal ends at " +
                               std::to_string(journal_.durable_seq()) + ", its records at " +
                               std::to_string(core_.world.state.seq));
  }
  snapshotter_.emplace(journal_, options_.snapshot_every_events, replayed.snapshot_seq);
  const Millis wall = options_.wall_clock();
  ahead_of_wall_ = StartTime(core_.world.state, wall) - wall;
  CheckInvariants(core_);
  LogUnreadSpecs(core_.world);
  members_.Begin(core_.world.state);
  ReachFailpoint("head.start.after_replay");
  Outcome outcome = StepOnce(std::move(start));
  RT_RETURN_IF_ERROR(outcome.verdict);
  epoch_ = core_.world.state.epoch;
  std::promise<absl::Status> durable;
  AfterDurable([&](absl::Status status) { durable.set_value(std::move(status)); });
  Submit();
  thread_ = std::thread([this] { Run(); });
  return durable.get_future().get();
}

bool Loop::Enqueue(Item& item, size_t limit) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || !failure_.ok() || inbox_.size() >= limit) return false;
    inbox_.push_back(std::move(item));
    if (inbox_.size() > 1) return true;  // The core thread has been woken already.
  }
  changed_.notify_all();
  return true;
}

constexpr size_t kOthersMax = limits::kInboxInputsMax - limits::kInboxReservedForSync;
absl::Status Full() {
  return BusyError("the head has too much to do");
}

void Loop::Post(Input input, AnswerFn done) {
  Item item = PostItem{std::move(input), std::move(done)};
  if (Enqueue(item, kOthersMax)) return;
  if (const AnswerFn& refuse = std::get<PostItem>(item).done) refuse(Full(), Answer{});
}

void Loop::PostSync(input::Sync sync, SyncSeen seen, SyncFn done) {
  Item item = SyncItem{std::move(sync), seen, std::move(done)};
  if (!Enqueue(item, limits::kInboxInputsMax)) std::get<SyncItem>(item).done({.status = Full()});
}

void Loop::Wake(NodeId node) {
  Item item = WakeItem{node};
  // When there is no room the node's next Sync comes soon anyway.
  Enqueue(item, limits::kInboxInputsMax);
}

void Loop::Query(std::function<void(const Core&)> read, std::function<void(absl::Status)> done) {
  Item item = QueryItem{std::move(read), std::move(done)};
  if (!Enqueue(item, kOthersMax)) std::get<QueryItem>(item).done(Full());
}

void Loop::OnDurable(std::function<void(uint64_t durable_seq)> changed) {
  std::lock_guard lock(mutex_);
  on_durable_.push_back(std::move(changed));
}

void Loop::Run() {
  while (true) {
    std::optional<std::vector<Item>> items = TakeItems(NextWake());
    if (!items.has_value()) return Drain();
    Release();
    for (Item& item : *items) Handle(std::move(item));
    EndOfBatch(steady_clock::now());
    Release();
    snapshotter_->Consider(journal_.durable_seq());
  }
}

SteadyTime Loop::NextWake() {
  const SteadyTime now = steady_clock::now();
  SteadyTime wake = next_tick_;
  if (auto expiry = parked_.NextExpiry()) wake = std::min(wake, *expiry);
  if (auto deadline = NextDeadline(core_)) {
    // Not before the next millisecond, so that a deadline that cannot be met yet does not spin.
    const Millis left = std::max<Millis>(1, *deadline - Now());
    wake = std::min(wake, now + milliseconds(left));
  }
  return wake;
}

// Waits for work; empty when only time passed, or when too many batches are in flight to take more.
// Nothing when the loop ends.
std::optional<std::vector<Item>> Loop::TakeItems(SteadyTime wake) {
  std::unique_lock lock(mutex_);
  const auto has_space = [this] { return HasSpace(); };
  const auto ready = [&] {
    return stopping_ || !failure_.ok() || durable_changed_ || (!inbox_.empty() && has_space());
  };
  changed_.wait_until(lock, wake, ready);
  durable_changed_ = false;
  if (stopping_ || !failure_.ok()) return std::nullopt;
  std::vector<Item> items;
  while (!inbox_.empty() && has_space() && items.size() < limits::kBatchInputsMax) {
    items.push_back(std::move(inbox_.front()));
    inbox_.pop_front();
  }
  return items;
}

void Loop::Handle(Item item) {
  std::visit(
      Overloaded{[&](PostItem& post) {
                   lane_->Take(post.input);
                   Outcome outcome = StepOnce(post.input);
                   AfterDurable([done = std::move(post.done), verdict = std::move(outcome.verdict),
                                 answer = std::move(outcome.answer)](absl::Status status) {
                     if (done) done(status.ok() ? verdict : status, answer);
                   });
                 },
                 [&](SyncItem& sync) { HandleSync(std::move(sync)); },
                 [&](WakeItem& wake) { core_.soft.dirty.insert(wake.node); },
                 [&](QueryItem& query) {
                   query.read(core_);
                   AfterDurable(
                       [done = std::move(query.done)](absl::Status status) { done(status); });
                 }},
      item);
}

void Loop::HandleSync(SyncItem item) {
  const NodeId node = item.sync.node;
  ParkedSync parked{.incarnation = item.sync.incarnation,
                    .sync_seq = item.sync.sync_seq,
                    .seen_epoch = item.sync.seen_epoch,
                    .seen_version = item.seen.version,
                    .until = steady_clock::now() + milliseconds(limits::kSyncHold),
                    .done = std::move(item.done)};
  for (const Observed& observed : item.sync.observed) parked.listed.insert(observed.fence);
  Outcome outcome = StepOnce(std::move(item.sync));
  if (!outcome.verdict.ok()) {
    AfterDurable([done = std::move(parked.done),
                  verdict = std::move(outcome.verdict)](absl::Status status) {
      done({.status = status.ok() ? verdict : status});
    });
    return;
  }
  const uint64_t incarnation = parked.incarnation;
  if (IsOvertaken(core_, node, parked)) behind_.insert(node);  // It hears by how much.
  if (auto older = parked_.Park(node, std::move(parked))) {
    const bool waits = older->incarnation == incarnation && older->sync_seq == item.seen.open_seq;
    released_.push_back({node, std::move(*older), waits});
  }
  // One that is behind is answered at the end of the batch, with all that the batch changed.
  if (parked_.IsOutdated(node, core_.world.state.epoch)) behind_.insert(node);
}

Outcome Loop::StepOnce(const Input& input) {
  last_now_ = std::max(last_now_, Now());
  Outcome outcome = Step(core_, input, last_now_);
  for (const auto& change :
       {members_.ChangeOf(outcome.records), machine_watch_.ChangeOf(outcome.records)})
    if (change) AfterDurable(UnlessFailed(change));
  std::move(outcome.records.begin(), outcome.records.end(), std::back_inserter(batch_.records));
  std::move(outcome.rows.begin(), outcome.rows.end(), std::back_inserter(batch_.rows));
  if (--inputs_until_check_ == 0) {
    CheckInvariants(core_);
    inputs_until_check_ = options_.inputs_per_check;
  }
  return outcome;
}

// With the lock. A journal that stands still holds back every answer, so that workers fall silent:
// time is not to run on without them. The gap between two Steps says that the head stood still.
bool Loop::HasSpace() const {
  if (in_flight_.size() >= limits::kBatchesInFlightMax) return false;
  return in_flight_.empty() || Now() - in_flight_.front() <= limits::kStallAfter;
}

void Loop::EndOfBatch(SteadyTime now) {
  bool has_space = true;
  {
    std::lock_guard lock(mutex_);
    has_space = HasSpace();
  }
  const auto deadline = NextDeadline(core_);
  const bool is_due = deadline.has_value() && *deadline <= Now();
  if (has_space && (now >= next_tick_ || is_due)) {
    StepOnce(input::Tick{});
    next_tick_ = now + milliseconds(options_.tick_interval);
  } else if (now >= next_tick_) {
    next_tick_ = now + milliseconds(1);  // Full: a batch that becomes durable wakes us sooner.
  }
  if (has_space)
    for (const input::LaneAnswered& overdue : lane_->Ask(core_, Now())) StepOnce(overdue);
  for (NodeId node : core_.soft.dirty) parked_.Bump(node);
  behind_.merge(core_.soft.dirty);
  core_.soft.dirty.clear();
  // A worker that sent a newer Sync beside an older one is told by the older one. Of others that
  // were released nobody may be there to take the answer.
  for (Released& older : std::exchange(released_, {})) {
    const ParkedSync* newest = parked_.Find(older.node);
    if (newest != nullptr) older.sync.listed = newest->listed;
    Reply(older.node, std::move(older.sync));
    if (!older.is_awaited) continue;
    parked_.NoteTold(older.node, core_.world.state.epoch);
    behind_.erase(older.node);
  }
  for (NodeId node : behind_) {
    if (auto sync = parked_.Take(node)) Reply(node, std::move(*sync));
  }
  behind_.clear();
  for (NodeId node : parked_.Expired(now)) Reply(node, *parked_.Take(node));
  Submit();
}

void Loop::Reply(NodeId node, ParkedSync sync) {
  SyncReply reply =
      MakeSyncReply(core_, node, parked_.VersionOf(node), sync.listed);
  reply.now = last_now_;
  AfterDurable([this, done = std::move(sync.done),
                reply = std::move(reply)](absl::Status status) mutable {
    if (!status.ok()) reply.status = std::move(status);
    reply.durable_seq = journal_.durable_seq();
    done(std::move(reply));
  });
}

void Loop::AfterDurable(std::function<void(absl::Status)> run) {
  effects_.push_back({core_.world.state.seq, std::move(run)});
}

void Loop::Submit() {
  if (batch_.records.empty()) return;
  {
    std::lock_guard lock(mutex_);
    in_flight_.push_back(Now());
  }
  ReachFailpoint("head.loop.before_append");
  const auto& records = batch_.records;
  if (failpoints::any_armed && std::any_of(records.begin(), records.end(), IsAboutMachines))
    ReachFailpoint("head.provider.before_append");
  journal_.Append(std::exchange(batch_, {}),
                  [this](absl::Status status) { OnAppended(std::move(status)); });
}

// On the journal's thread. Notifies under the lock: the destructor waits for in_flight_.
void Loop::OnAppended(absl::Status status) {
  std::lock_guard lock(mutex_);
  in_flight_.pop_front();
  durable_changed_ = true;
  if (failure_.ok() && !status.ok()) failure_ = std::move(status);
  changed_.notify_all();
}

void Loop::Release() {
  const uint64_t durable = journal_.durable_seq();
  while (!effects_.empty() && effects_.front().seq <= durable) {
    Effect effect = std::move(effects_.front());
    effects_.pop_front();
    ReachFailpoint("head.loop.before_answer");
    effect.run(absl::OkStatus());
    ReachFailpoint("head.loop.after_answer");
  }
  if (durable == announced_seq_) return;
  announced_seq_ = durable;
  std::vector<std::function<void(uint64_t)>> listeners;
  {
    std::lock_guard lock(mutex_);
    listeners = on_durable_;
  }
  for (const auto& listener : listeners) listener(durable);
}

// Memory is ahead of the disk: nothing that was decided may be seen.
void Loop::Die(const absl::Status& status) {
  options_.on_fatal(status);
  const absl::Status error = absl::UnavailableError("the head failed: " + MessageOf(status));
  while (!effects_.empty()) {
    Effect effect = std::move(effects_.front());
    effects_.pop_front();
    effect.run(error);
  }
  for (ParkedSync& sync : parked_.TakeAll()) sync.done({.status = error});
  std::deque<Item> rest;
  {
    std::lock_guard lock(mutex_);
    rest.swap(inbox_);
  }
  for (Item& item : rest) {
    std::visit(Overloaded{
        [&](PostItem& post) { if (post.done) post.done(error, Answer{}); },
        [&](SyncItem& sync) { sync.done({.status = error}); },
        [&](WakeItem&) {},
        [&](QueryItem& query) { query.done(error); }}, item);
  }
}

// Lets out what is on its way to the disk, and refuses the rest.
void Loop::Drain() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return in_flight_.empty(); });
    if (!failure_.ok()) {
      const absl::Status status = failure_;
      lock.unlock();
      return Die(status);
    }
  }
  Release();
  options_.on_fatal = [](const absl::Status&) {};
  Die(Stopping());
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeadLoop>> HeadLoop::Start(Journal& journal, input::StartHead start,
                                                          Options options,
                                                          std::optional<World> followed) {
  auto loop = std::make_unique<Loop>(journal, std::move(options));
  RT_RETURN_IF_ERROR(loop->Begin(std::move(start), std::move(followed)));
  return loop;
}

}  // namespace rt
