#include "tests/sim/cloud_host.h"

#include <algorithm>

#include "common/base/limits.h"

namespace rt::sim {
namespace {

constexpr Millis kListEvery = 5'000;
constexpr Millis kLookAgain = 500;
constexpr Millis kUnmetMax = limits::kMachineRetryMax + 30'000;

}  // namespace

CloudHost::CloudHost(Sim& sim, HeadHost& head, const Auditor& auditor, uint64_t seed, bool is_cloud)
    : sim_(sim), head_(head), auditor_(auditor), rng_(seed, is_cloud ? 5 : 2), requests_(seed, 6),
      joins_(seed, 7), is_cloud_(is_cloud),
      cloud_(
          "cluster-1", [&sim] { return sim.now; },
          rng_.Chance(0.5) ? 0 : static_cast<Millis>(rng_.Below(4'000))) {
  if (is_cloud) {
    DrawPools();
    return;
  }
  is_on_ = rng_.Below(3) == 0;
  PoolSpec pool{.name = "cloud",
                .each = {.cpu = 2 * kUnit},
                .min_workers = static_cast<uint32_t>(rng_.Below(2)),
                .max_workers = static_cast<uint32_t>(1 + rng_.Below(3)),
                .idle_timeout = Between(2'000, 15'000)};
  if (rng_.Chance(0.3)) pool.each.gpu = kUnit;
  pools_[pool.name] = pool;
}

void CloudHost::DrawPools() {
  is_on_ = true;
  uint32_t least = 0, most = 0;
  for (const auto& [name, each] :
       std::map<std::string, Resources>{{"big", {.cpu = 4 * kUnit}},
                                        {"gpu", {.cpu = 2 * kUnit, .gpu = kUnit}},
                                        {"small", {.cpu = 2 * kUnit}}}) {
    PoolSpec pool{.name = name,
                  .each = each,
                  .min_workers = static_cast<uint32_t>(rng_.Chance(0.2) ? 1 : 0),
                  .max_workers = static_cast<uint32_t>(1 + rng_.Below(3)),
                  .idle_timeout = Between(1'000, 8'000)};
    if (name == "small") ++pool.max_workers;  // Two ranks that share no node fit.
    least += pool.min_workers;
    most += pool.max_workers;
    pools_[name] = pool;
  }
  if (rng_.Chance(0.5)) sim_.truth.max_workers = std::min(most, least + 2);
}

void CloudHost::Start() {
  if (!is_on_) return;
  std::vector<PoolSpec> pools;
  for (const auto& [name, pool] : pools_) pools.push_back(pool);
  sim_.truth.pools = pools_;
  head_.SetPools(std::move(pools), sim_.truth.max_workers);
  cloud_.AddForeign("i-foreign");
  if (is_cloud_) {
    cloud_.AnswerTokensFirst();
    std::vector<Resources> types;
    for (const auto& [name, pool] : pools_) types.insert(types.end(), pool.max_workers, pool.each);
    head_.SetNodeTypes(std::move(types));
  }
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
  for (const auto& [name, pool] : pools_)
    Require(auditor_.LiveMachines(name) <= pool.max_workers, "max_workers is never exceeded");
  ReadLog();
  Compare();
  if (!head_.up()) return;
  if (is_cloud_ && sim_.calm) CheckDemand();
  if (durable_.world.state.epoch != epoch_) {  // Another head: its edge knows nothing.
    epoch_ = durable_.world.state.epoch;
    ++life_;
    awake_since_ = durable_.world.state.time;
    is_listing_ = is_terminating_ = has_listed_ = false;
    creating_.clear();
    unclear_.clear();
  }
  // Whoever requested resources takes that back, until it is heard.
  if (sim_.calm && !durable_.world.state.requested_bundles.empty()) RequestResources({});
  const ProviderWishes wishes = WishesOf(durable_, head_.core().soft.last_step_at);
  const Millis every = !unclear_.empty() || wishes.needs_list ? kLookAgain : kListEvery;
  if (!is_listing_ && (!has_listed_ || sim_.now - listed_at_ >= every)) List();
  if (!has_listed_) return;
  for (const CreateWish& wish : wishes.create)
    if (!creating_.contains(wish.pool) && !unclear_.contains(wish.pool)) Create(wish);
  if (!is_terminating_ && !wishes.terminate.empty()) Terminate(wishes.terminate);
}

void CloudHost::RequestResources(std::vector<RequestedBundles> bundles) {
  sim_.truth.requests.push_back(bundles);
  Post(input::RequestResources{std::move(bundles), "ann"}, [](bool) {});
}

void CloudHost::DrawFaults() {
  using Loss = fakes::FakeCloud::Loss;
  if (sim_.calm) return cloud_.Heal();
  if (is_cloud_) return DrawZones();
  if (Chance(0.15)) cloud_.LoseNextAnswer(Chance(0.5) ? Loss::kBeforeEffect : Loss::kAfterEffect);
  const ProviderError errors[] = {ProviderError::kCapacity, ProviderError::kQuota,
                                  ProviderError::kBadConfiguration, ProviderError::kRetryLater};
  if (Chance(0.1)) cloud_.FailNextCreate(errors[rng_.Below(4)]);
  cloud_.LimitTo(Chance(0.2) ? 1 : 1'000);
}

void CloudHost::DrawZones() {
  using Loss = fakes::FakeCloud::Loss;
  cloud_.Heal();
  if (Chance(0.12)) {
    sim_.faults.Add(Fault::kCloudAnswerLost);
    cloud_.LoseNextAnswer(Chance(0.3) ? Loss::kBeforeEffect : Loss::kAfterEffect);
  }
  const ProviderError errors[] = {ProviderError::kCapacity, ProviderError::kQuota,
                                  ProviderError::kBadConfiguration};
  if (Chance(0.1)) {
    sim_.faults.Add(Fault::kCloudRefused);
    // Throttling and errors of the service are more frequent than the others.
    cloud_.FailNextCreate(Chance(0.5) ? ProviderError::kRetryLater
                                      : errors[rng_.Chance(0.1) ? 2 : rng_.Below(2)]);
  }
  for (const auto& [name, pool] : pools_) {
    size_t in_zones = 0;
    for (int zone = 0; zone < 3; ++zone) in_zones += rng_.Below(3);
    if (Chance(0.3)) cloud_.LimitPool(name, in_zones);
  }
}

// Once the faults are over, nothing waits for longer than the longest back-off while a pool that
// could hold it may grow and does not. What is on its way is counted on, until it is given up.
void CloudHost::CheckDemand() {
  size_t pending = 0;
  for (const auto& [name, pool] : pools_) pending += auditor_.PendingMachines(name);
  const bool may_grow =
      !sim_.truth.max_workers || auditor_.MachinesThere() < *sim_.truth.max_workers;
  for (const auto& [name, pool] : pools_) {
    const bool is_unmet =
        may_grow && auditor_.AwaitsNodeOf(pool) && auditor_.MachinesThere(name) < pool.max_workers;
    Millis& since = unmet_since_[name];
    if (!is_unmet || pending > 0 || since == 0) since = sim_.now;
    Require(sim_.now - since <= kUnmetMax, "a demand is met by nobody although a pool could");
  }
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
  Call([this, complete_before, was_unclear = unclear_]() -> std::function<void()> {
    if (is_cloud_ && Chance(0.1)) {
      sim_.faults.Add(Fault::kCloudRefused);
      return [this] { is_listing_ = false; };
    }
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
        for (const std::string& pool : was_unclear) unclear_.erase(pool);
      });
    };
  });
}

void CloudHost::Create(const CreateWish& wish) {
  creating_.insert(wish.pool);
  CreateCall call{.pool = wish.pool, .each = pools_.at(wish.pool).each, .machines = {}};
  for (uint64_t number : wish.machines) call.machines.push_back({number, MachineName(number)});
  Call([this, call, request = wish.request]() -> std::function<void()> {
    const absl::StatusOr<std::vector<MadeMachine>> made = cloud_.Create(call);
    const auto settled = [this, pool = call.pool](bool) { creating_.erase(pool); };
    if (!made.ok()) {
      const ProviderError error = ProviderErrorOf(made.status());
      return [this, error, request, settled, pool = call.pool] {
        if (error == ProviderError::kRetryLater) unclear_.insert(pool);
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
    const Resources& each = pools_.at(cloud_.PoolOf(id)).each;
    worker = std::make_unique<WorkerHost>(sim_, head_, auditor_, MachineName(number), each, number);
    sim_.hosts.push_back(worker.get());
    BootLater(*worker, id);
  }
}

void CloudHost::BootLater(WorkerHost& worker, const std::string& id) {
  Millis after = Between(100, 3'000);
  if (is_cloud_ && Chance(0.06)) {
    sim_.faults.Add(Fault::kMachineNeverBoots);
    // Most end themselves, as user data does that cannot start its worker; the others stay.
    if (rng_.Chance(0.9)) sim_.At(Between(10'000, 60'000), [this, id] { Vanish(id); });
    return;
  }
  if (is_cloud_ && Chance(0.02)) {
    sim_.faults.Add(Fault::kMachineBootsLate);
    after = Between(60'000, 300'000);
  }
  if (is_cloud_ && !sim_.calm && joins_.Chance(0.03)) {  // Its user data keeps failing, for ever.
    sim_.faults.Add(Fault::kMachineNeverJoins);
    return;
  }
  sim_.At(after, [&worker] {
    if (worker.present()) worker.Boot();
  });
}

void CloudHost::Vanish(const std::string& id) {
  if (!cloud_.IsThere(id)) return;
  sim_.faults.Add(Fault::kMachineVanished);
  cloud_.Vanish(id);
  Compare();
}

// It is true in most cases, at the deadline or before it.
void CloudHost::GiveNotice(WorkerHost& worker, const std::string& id) {
  sim_.faults.Add(Fault::kNodeDrained);
  const Millis deadline = worker.Drain();
  if (rng_.Chance(0.3)) return;
  sim_.At(rng_.Chance(0.7) ? deadline : Between(0, deadline), [this, id] {
    if (sim_.calm || !cloud_.IsThere(id)) return;
    sim_.faults.Add(Fault::kNoticeTrue);
    Vanish(id);
  });
}

void CloudHost::Strike() {
  if (!is_on_) return;
  for (const auto& [number, worker] : workers_) {
    if (worker == nullptr || !worker->present()) continue;
    const std::string& id = sim_.truth.machine_ids.at(number);
    if (Chance(0.01)) is_cloud_ ? Vanish(id) : cloud_.Vanish(id);
    if (Chance(0.02)) worker->KillDaemon();
    if (Chance(0.02)) worker->Reboot(rng_.Chance(0.6));
    if (is_cloud_ && worker->present() && worker->daemon_up() && Chance(0.04))
      GiveNotice(*worker, id);
  }
  if (is_cloud_ && !sim_.calm && head_.up() && requests_.Chance(0.05)) {
    const uint64_t count = requests_.Below(5);
    const int64_t cpus = requests_.Chance(0.5) ? 1 : 2;
    if (count == 0) RequestResources({});
    else RequestResources({{{.cpu = cpus * kUnit}, count}});
  }
  Compare();
}

bool CloudHost::IsSettled() const {
  if (!is_on_) return true;
  const std::vector<std::string> there = cloud_.There();
  size_t least = 0;
  for (const auto& [name, pool] : pools_) {
    if (auditor_.LiveMachines(name) != pool.min_workers) return false;
    least += pool.min_workers;
  }
  return there.size() == least && head_.core().world.state.machines.size() == least;
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
          (is_listing_ ? ", lists" : "") + (creating_.empty() ? "" : ", creates") +
          (unclear_.empty() ? "" : ", unclear") + (is_terminating_ ? ", terminates" : "") +
          (head_.up() ? "" : ", no head");
  return text;
}

}  // namespace rt::sim
