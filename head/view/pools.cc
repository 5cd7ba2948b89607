// The read model of pools.
#include "head/core/pools.h"

#include <algorithm>
#include <set>

#include "head/core/demand.h"
#include "head/view/parts.h"
#include "head/view/view.h"
#include "head/view/why.h"

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

Json RequestedView(const Core& core, const HeadFacts& facts) {
  const State& state = core.world.state;
  if (state.requested_bundles.empty()) return Json();
  Json bundles = Json::MakeArray();
  for (const Demand& one : AskedOf(state))
    bundles.Append(
        Json::MakeObject({{"resources", ToJson(one.wanted.one())}, {"count", Json(one.count)}}));
  const std::optional<ResourceRequest> lacking = FirstUnmet(core);
  std::string reason;
  if (lacking.has_value()) {
    reason = WhatPoolsDo(core, *lacking, facts.now);
    if (reason.empty()) reason = "no pool could hold " + Describe(*lacking);
  }
  return Json::MakeObject({{"bundles", std::move(bundles)},
                           {"by", TextOrNull(state.requested_by)},
                           {"since", TimeOrNull(state.requested_at)},
                           {"unmet", Json(AskedNodes(core).unmet())},
                           {"reason", TextOrNull(reason)}});
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
