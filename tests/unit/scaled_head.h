// A head with the pool "cpu" of nodes with one cpu, for tests of machines by demand: every step is
// replayed on a shadow.
#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/core.h"
#include "head/core/desired.h"
#include "head/core/draft.h"
#include "head/core/pools.h"
#include "head/view/why.h"

namespace rt {

inline constexpr Millis kIdle = 60'000;

inline PoolSpec CpuPool(uint32_t least, uint32_t most) {
  return {.name = "cpu",
          .each = {.cpu = kUnit},
          .min_workers = least,
          .max_workers = most,
          .idle_timeout = kIdle};
}

struct Scaled {
  Core core;
  World shadow;
  Millis now = 1'000'000;
  PoolSpec pool;
  std::optional<uint32_t> max_workers = {};  // Of all pools together.
  std::map<NodeId, uint64_t> syncs;
  std::map<NodeId, std::map<Fence, Observed>> running;
  std::map<NodeId, Millis> notices;  // That stand: when each machine will be taken away, from now.

  explicit Scaled(uint32_t least = 0, uint32_t most = 3) : pool(CpuPool(least, most)) { Start(); }
  Outcome Do(const Input& input) {
    Outcome outcome = DoUnchecked(input);
    CheckInvariants(core);
    REQUIRE(CanonicalDump(core.world.state) == CanonicalDump(shadow.state));
    return outcome;
  }
  // One of thousands before one that is checked: a check looks at the whole state.
  Outcome DoUnchecked(const Input& input) {
    Outcome outcome = Step(core, input, now);
    for (const Record& record : outcome.records) Apply(shadow, record);
    return outcome;
  }
  void Start() {
    Do(input::StartHead{
        .cluster_id = "c", .cluster_name = "t", .pools = {pool}, .max_workers = max_workers});
  }
  void Restart() {
    core = Core{};
    core.world.state = shadow.state;
    Reindex(core.world);
    Start();
  }
  void Tick() { Do(input::Tick{}); }
  void Search(int trials) {
    const std::string text = R"({"experiment":"e","command":["x"],"num_samples":)" +
                             std::to_string(trials) + R"(,"resources":{"cpu":1}})";
    const Outcome outcome =
        Do(input::CreateExperiment{.spec = text, .request_key = "k", .results_root = "/r"});
    REQUIRE(outcome.verdict.ok());
    Tick();
  }
  const State& state() const { return core.world.state; }
  size_t Live() const {
    size_t live = 0;
    for (const auto& [number, machine] : state().machines) live += machine.is_live() ? 1 : 0;
    return live;
  }
  ProviderWishes Wishes() const { return WishesOf(core, now); }
  void Create(const std::vector<uint64_t>& numbers) {
    input::MachinesCreated created{.request = state().machines.at(numbers.front()).request};
    for (uint64_t number : numbers)
      created.machines.push_back({number, "i-" + std::to_string(number)});
    Do(created);
  }
  NodeId Join(uint64_t machine, const std::string& token) {
    REQUIRE(Do(input::CreateToken{token, "worker", 60'000, "cpu", MachineName(machine), machine})
                .verdict.ok());
    const Outcome joined = Do(input::UseToken{token, ""});
    INFO(joined.verdict.ToString());
    REQUIRE(joined.verdict.ok());
    Sync(joined.answer.node);
    return joined.answer.node;
  }
  void Sync(NodeId node) {
    input::Sync sync{.node = node, .incarnation = 7, .sync_seq = ++syncs[node]};
    sync.inventory.resources.cpu = kUnit;
    for (const auto& [fence, observed] : running[node]) sync.observed.push_back(observed);
    sync.draining = notices.contains(node);
    if (sync.draining) sync.drain_for = notices.at(node);
    Do(sync);
    std::map<Fence, Observed> kept;
    for (const DesiredAttempt& desired : DesiredFor(core.world, node)) {
      Observed& observed = running[node][desired.fence];
      if (observed.pid == 0) observed = {desired.fence, Observed::Phase::kRunning, 4242};
      kept[desired.fence] = observed;
    }
    running[node] = kept;
  }
  void Wait(Millis span) {
    for (const Millis until = now + span; now < until;) {
      now += 500;
      for (const auto& [id, node] : state().nodes)
        if (!node.gone && syncs.contains(id)) Sync(id);
      Tick();
    }
  }
  void ExitAll(NodeId node) {
    for (auto& [fence, observed] : running[node]) observed.phase = Observed::Phase::kExited;
    Sync(node);
    Sync(node);
  }
  std::string Why(uint32_t trial) {
    return WhyWaiting(core, Owner::Of(TrialId{{1}, trial}), now).reason;
  }
};

}  // namespace rt
