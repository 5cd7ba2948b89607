// The read model of pools.
#include "head/core/pools.h"

#include <algorithm>
#include <set>

#include "head/view/parts.h"
#include "head/view/view.h"

namespace rt {
namespace {

struct Counts {
  uint64_t nodes = 0;      // Joined and there.
  uint64_t requested = 0;  // Not joined yet.
  uint64_t releasing = 0;  // Released, and not known to be gone.
};

bool HasNode(const State& state, const Machine& machine) {
  const auto node = state.nodes.find(machine.node);
  return node != state.nodes.end() && !node->second.gone;
}

Counts CountsOf(const State& state, const std::string& pool) {
  Counts counts;
  for (const auto& [number, machine] : state.machines) {
    if (machine.pool != pool) continue;
    if (!machine.is_live()) ++counts.releasing;
    else if (HasNode(state, machine)) ++counts.nodes;
    else ++counts.requested;
  }
  return counts;
}

}  // namespace

std::string TroubleOf(const State& state, const std::string& pool, Millis now) {
  const auto found = state.pools.find(pool);
  if (found == state.pools.end()) return "";
  const Millis left = std::max<Millis>(0, found->second.retry_at - now);
  return std::string(NameOf(found->second.error)) + ": " + found->second.reason +
         "; tried again in " + std::to_string((left + 999) / 1'000) + " s";
}

Json PoolListView(const Core& core, const HeadFacts& facts) {
  Json pools = Json::MakeArray();
  for (const auto& [name, spec] : core.soft.pools) {
    const Counts counts = CountsOf(core.world.state, name);
    pools.Append(
        Json::MakeObject({{"name", name},
                          {"min_workers", spec.min_workers},
                          {"max_workers", spec.max_workers},
                          {"idle_timeout_s", static_cast<double>(spec.idle_timeout) / 1'000},
                          {"nodes", counts.nodes},
                          {"requested", counts.requested},
                          {"releasing", counts.releasing},
                          {"reason", TextOrNull(TroubleOf(core.world.state, name, facts.now))}}));
  }
  return pools;
}

std::vector<const Machine*> RequestedMachines(const State& state) {
  std::set<std::string> taken;
  for (const auto& [id, node] : state.nodes)
    if (!node.gone) taken.insert(node.name);
  std::vector<const Machine*> requested;
  for (const auto& [number, machine] : state.machines)
    if (machine.is_live() && !HasNode(state, machine) && !taken.contains(MachineName(number)))
      requested.push_back(&machine);
  return requested;
}

}  // namespace rt
