#include "tests/sim/cloud_host.h"

#include <algorithm>

namespace rt::sim {
namespace {

constexpr Millis kListEvery = 5'000;
constexpr Millis kLookAgain = 500;

}  // namespace

CloudHost::CloudHost(Sim& sim, HeadHost& head, const Auditor& auditor, uint64_t seed)
    : sim_(sim), head_(head), auditor_(auditor), rng_(seed, 2),
      cloud_(
          "cluster-1", [&sim] { return sim.now; },
          rng_.Chance(0.5) ? 0 : static_cast<Millis>(rng_.Below(4'000))) {
  is_on_ = rng_.Below(3) == 0;
  pool_ = {.name = "cloud",
           .each = {.cpu = 2 * kUnit},
           .min_workers = static_cast<uint32_t>(rng_.Below(2)),
           .max_workers = static_cast<uint32_t>(1 + rng_.Below(3)),
           .idle_timeout = Between(2'000, 15'000)};
  if (rng_.Chance(0.3)) pool_.each.gpu = kUnit;
}

void CloudHost::Start() {
  if (!is_on_) return;
  head_.SetPools({pool_});
  sim_.truth.machines_min = pool_.min_workers;
  sim_.truth.machines_max = pool_.max_workers;
  sim_.truth.machines_idle = pool_.idle_timeout;
  cloud_.AddForeign("i-foreign");
  LookLater();
}

void CloudHost::LookLater() {
  sim_.At(Between(50, 300), [this] {
    Look();
    LookLater();
  });
}

void CloudHost::ReadLog() {
  for (const Record& record : head_.LogAfter(durable_.world.state.seq))
    Apply(durable_.world, record);
}

void CloudHost::Look() {
  Require(cloud_.IsThere("i-foreign"), "what does not carry the cluster's tag is never touched");
  Require(auditor_.LiveMachines() <= pool_.max_workers, "max_workers is never exceeded");
  ReadLog();
  Compare();
  if (!head_.up()) return;
  if (durable_.world.state.epoch != epoch_) {  // Another head: its edge knows nothing.
    epoch_ = durable_.world.state.epoch;
    ++life_;
    awake_since_ = durable_.world.state.time;
    is_listing_ = is_creating_ = is_terminating_ = is_unclear_ = has_listed_ = false;
  }
  const ProviderWishes wishes = WishesOf(durable_, head_.core().soft.last_step_at);
  const Millis every = is_unclear_ || wishes.needs_list ? kLookAgain : kListEvery;
  if (!is_listing_ && (!has_listed_ || sim_.now - listed_at_ >= every)) List();
  if (!has_listed_) return;
  for (const CreateWish& wish : wishes.create)
    if (!is_creating_ && !is_unclear_) Create(wish);
  if (!is_terminating_ && !wishes.terminate.empty()) Terminate(wishes.terminate);
}

void CloudHost::DrawFaults() {
  using Loss = fakes::FakeCloud::Loss;
  if (sim_.calm) return cloud_.Heal();
  if (Chance(0.15)) cloud_.LoseNextAnswer(Chance(0.5) ? Loss::kBeforeEffect : Loss::kAfterEffect);
  const ProviderError errors[] = {ProviderError::kCapacity, ProviderError::kQuota,
                                  ProviderError::kBadConfiguration, ProviderError::kRetryLater};
  if (Chance(0.1)) cloud_.FailNextCreate(errors[rng_.Below(4)]);
  cloud_.LimitTo(Chance(0.2) ? 1 : 1'000);
}

void CloudHost::Call(std::function<std::function<void()>()> call) {
  sim_.At(Between(5, 400), [this, life = life_, call = std::move(call)] {
    DrawFaults();
    std::function<void()> answer = call();  // The effect, whoever still waits for it.
    Compare();
    sim_.At(Between(5, 400), [this, life, answer = std::move(answer)] {
      if (life == life_ && head_.up()) answer();
    });
  });
}

void CloudHost::Post(Input input, std::function<void(bool)> settled) {
  head_.Post(std::move(input), [this, life = life_, settled = std::move(settled)](
                                   const absl::Status& status, const Answer&) {
    if (life == life_) settled(status.ok());
  });
}

void CloudHost::List() {
  is_listing_ = true;
  const Millis began = durable_.world.state.time, lag = cloud_.list_lag();
  const Millis complete_before = began - awake_since_ < lag ? 0 : began - lag;
  Call([this, complete_before, was_unclear = is_unclear_]() -> std::function<void()> {
    input::MachinesListed listed{.machines = {}, .complete_before = complete_before};
    const absl::StatusOr<std::vector<MadeMachine>> machines = cloud_.List();
    for (const MadeMachine& machine : *machines)
      listed.machines.push_back({machine.number, machine.id, machine.pool});
    return [this, listed, was_unclear] {
      Post(listed, [this, was_unclear](bool taken) {
        is_listing_ = false;
        if (!taken) return;
        has_listed_ = true;
        listed_at_ = sim_.now;
        if (was_unclear) is_unclear_ = false;
      });
    };
  });
}

void CloudHost::Create(const CreateWish& wish) {
  is_creating_ = true;
  CreateCall call{.pool = wish.pool, .each = pool_.each, .machines = {}};
  for (uint64_t number : wish.machines) call.machines.push_back({number, MachineName(number)});
  Call([this, call, request = wish.request]() -> std::function<void()> {
    const absl::StatusOr<std::vector<MadeMachine>> made = cloud_.Create(call);
    const auto settled = [this](bool) { is_creating_ = false; };
    if (!made.ok()) {
      const ProviderError error = ProviderErrorOf(made.status());
      return [this, error, request, settled] {
        if (error == ProviderError::kRetryLater) is_unclear_ = true;
        Post(input::MachinesFailed{request, error, "as drawn"}, settled);
      };
    }
    input::MachinesCreated created{.request = request, .machines = {}};
    for (const MadeMachine& machine : *made)
      created.machines.push_back({machine.number, machine.id});
    const bool is_whole = made->size() == call.machines.size();
    return [this, created, is_whole, settled] {
      if (is_whole) return Post(created, settled);
      Post(created, [](bool) {});
      Post(input::MachinesFailed{created.request, ProviderError::kCapacity, "some"}, settled);
    };
  });
}

void CloudHost::Terminate(const std::vector<TerminateWish>& wishes) {
  is_terminating_ = true;
  Call([this, wishes]() -> std::function<void()> {
    std::vector<std::string> ids;
    input::MachinesTerminated terminated;
    for (const TerminateWish& wish : wishes) {
      ids.push_back(wish.id);
      terminated.machines.push_back(wish.machine);
    }
    const bool done = cloud_.Terminate(ids).ok();
    return [this, terminated, done] {
      if (!done) is_terminating_ = false;
      else Post(terminated, [this](bool) { is_terminating_ = false; });
    };
  });
}

void CloudHost::Compare() {
  const std::vector<std::string> there = cloud_.There();
  for (const auto& [number, id] : cloud_.made()) {
    sim_.truth.machine_ids[number] = id;
    const bool is_there = std::find(there.begin(), there.end(), id) != there.end();
    std::unique_ptr<WorkerHost>& worker = workers_[number];
    if (!is_there) {
      sim_.truth.machines_gone.insert(id);
      if (worker != nullptr && worker->present()) worker->LeaveForGood();
      continue;
    }
    if (worker != nullptr) continue;
    worker = std::make_unique<WorkerHost>(sim_, head_, auditor_, MachineName(number), pool_.each,
                                          number);
    sim_.hosts.push_back(worker.get());
    sim_.At(Between(100, 3'000), [host = worker.get()] {
      if (host->present()) host->Boot();
    });
  }
}

void CloudHost::Strike() {
  if (!is_on_) return;
  for (const auto& [number, worker] : workers_) {
    if (worker == nullptr || !worker->present()) continue;
    if (Chance(0.01)) cloud_.Vanish(sim_.truth.machine_ids.at(number));
    if (Chance(0.02)) worker->KillDaemon();
    if (Chance(0.02)) worker->Reboot(rng_.Chance(0.6));
  }
  Compare();
}

bool CloudHost::IsSettled() const {
  if (!is_on_) return true;
  const std::vector<std::string> there = cloud_.There();
  return there.size() == pool_.min_workers && auditor_.LiveMachines() == there.size() &&
         head_.core().world.state.machines.size() == there.size();
}

std::string CloudHost::Describe() const {
  std::string text = "\n  there:";
  for (const std::string& id : cloud_.There()) text += " " + id;
  text += "\n  known:";
  for (const auto& [number, machine] : head_.core().world.state.machines)
    text += " " + std::to_string(number) + "=" + machine.id + (machine.is_live() ? "" : "-");
  for (const auto& [name, pool] : head_.core().world.state.pools)
    text += "\n  " + name + ": " + NameOf(pool.error) + ", again in " +
            std::to_string(pool.retry_at - head_.core().soft.last_step_at) + " ms";
  text += std::string("\n  edge: ") + (has_listed_ ? "listed" : "not listed") +
          (is_listing_ ? ", lists" : "") + (is_creating_ ? ", creates" : "") +
          (is_unclear_ ? ", unclear" : "") + (is_terminating_ ? ", terminates" : "") +
          (head_.up() ? "" : ", no head");
  return text;
}

}  // namespace rt::sim
