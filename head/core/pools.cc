#include "head/core/pools.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "common/base/limits.h"
#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/core/demand.h"
#include "head/core/draft.h"

namespace rt {
namespace {

bool IsConfirmed(const Machine& machine) { return !machine.id.empty(); }

// Its node, unless that is gone; null: it has none yet.
const Node* NodeOf(const State& state, const Machine& machine) {
  const auto found = state.nodes.find(machine.node);
  return found == state.nodes.end() || found->second.gone ? nullptr : &found->second;
}

// It was asked for, and its node has not been ready yet.
bool IsPending(const State& state, const Machine& machine) {
  const Node* node = NodeOf(state, machine);
  return machine.is_live() && (node == nullptr || !node->ready);
}

Millis RetryAfter(ProviderError error, uint32_t failures) {
  const bool is_open = error == ProviderError::kRetryLater;
  Millis span = is_open ? limits::kMachineLookFirst : limits::kMachineRetryFirst;
  const Millis most = is_open ? limits::kMachineLookMax : limits::kMachineRetryMax;
  if (error == ProviderError::kBadConfiguration) return most;
  for (uint32_t i = 0; i < failures && span < most; ++i) span *= 2;
  return std::min(span, most);
}

// Its node is there and drains: it is about to be taken away, or a person wants it to be.
bool IsLeaving(const State& state, const Machine& machine) {
  const Node* node = NodeOf(state, machine);
  return node != nullptr && node->draining;
}

bool IsHeldBack(const State& state, const std::string& pool, Millis now) {
  const auto found = state.pools.find(pool);
  return found != state.pools.end() && now < found->second.retry_at;
}

// All pools of the configuration, by name; in one pass over the machines.
std::vector<PoolNow> PoolsOf(const Core& core, Millis now) {
  const State& state = core.world.state;
  std::vector<PoolNow> pools;
  std::map<std::string_view, size_t> by_name;
  for (const auto& [name, spec] : core.soft.pools) {
    by_name[name] = pools.size();
    pools.push_back(
        {.spec = spec, .each = spec.each, .may_request = !IsHeldBack(state, name, now)});
  }
  for (const auto& [number, machine] : state.machines) {
    const auto found = by_name.find(machine.pool);
    if (found == by_name.end()) continue;
    PoolNow& pool = pools[found->second];
    if (!machine.is_live()) {
      ++pool.ending;
      continue;
    }
    ++pool.live;
    pool.pending += IsPending(state, machine) ? 1 : 0;
    pool.leaving += IsLeaving(state, machine) ? 1 : 0;
    if (!IsConfirmed(machine)) pool.may_request = false;  // A request is open.
  }
  return pools;
}

void RequestMachines(Draft& draft) {
  std::vector<PoolNow> pools = PoolsOf(draft.core, draft.now);
  // First what was asked for explicitly. Those machines are counted on by what waits.
  const std::vector<size_t> asked = PlanAsked(draft.core, pools);
  for (size_t i = 0; i < pools.size(); ++i) {
    pools[i].live += asked[i];
    pools[i].pending += asked[i];
  }
  NodeDemand demand = DemandOf(draft.core, draft.now);
  std::vector<size_t> wanted =
      PlanNewNodes(pools, std::move(demand.soon), demand.requests, draft.soft().max_workers);
  std::transform(wanted.begin(), wanted.end(), asked.begin(), wanted.begin(), std::plus<>());
  for (size_t i = 0; i < pools.size(); ++i) {
    if (wanted[i] == 0) continue;
    const auto count =
        static_cast<uint32_t>(std::min<size_t>(wanted[i], limits::kMachinesPerRequest));
    draft.Emit(event::MachinesRequested{draft.state().last_machine + 1, pools[i].spec.name, count});
  }
}

void Release(Draft& draft, uint64_t number, const std::string& reason) {
  const Machine machine = draft.state().machines.at(number);  // A copy: Emit edits it.
  draft.Emit(event::MachineReleased{number, machine.pool, machine.id, reason});
  if (NodeOf(draft.state(), machine) != nullptr)
    OnRemoveNode(draft, {machine.node, reason}).IgnoreError();
}

// Why the machine is useless; empty: it is not.
std::string WhyUseless(const Draft& draft, const Machine& machine) {
  const State& state = draft.core.world.state;
  const Soft& soft = draft.core.soft;
  if (!soft.pools.contains(machine.pool)) return "its pool is no longer in the configuration";
  if (!IsConfirmed(machine)) return "";
  const Node* node = NodeOf(state, machine);
  const Millis since = node == nullptr ? machine.created_at : node->changed_at;
  if (node == nullptr && machine.node.value != 0) return "its node was removed";
  if (node == nullptr)
    return draft.now - machine.created_at > limits::kMachineJoinMax ? "it did not join in time"
                                                                    : "";
  // It joins, runs the setup commands, and starts its worker.
  constexpr Millis kReadyMax = limits::kMachineJoinMax + limits::kSetupMax;
  if (!node->ready)
    return draft.now - machine.created_at > kReadyMax ? "it was not ready in time" : "";
  const bool is_over = node->lost && draft.now - since > limits::kMachineLostMax;
  return is_over ? "its node was lost and did not come back" : "";
}

void ReleaseUseless(Draft& draft) {
  std::vector<std::pair<uint64_t, std::string>> useless;
  for (const auto& [number, machine] : draft.state().machines) {
    const std::string why = machine.is_live() ? WhyUseless(draft, machine) : "";
    if (!why.empty()) useless.emplace_back(number, why);
  }
  for (const auto& [number, why] : useless) Release(draft, number, why);
}

// Nothing runs there, and nothing is there that exists nowhere else.
bool IsIdle(const Core& core, const Node& node) {
  const auto soft = core.soft.nodes.find(node.id);
  const auto index = core.world.index.nodes.find(node.id);
  if (!node.ready || node.lost || node.away_until != 0) return false;
  if (soft == core.soft.nodes.end() || !soft->second.seen || !soft->second.outputs.empty())
    return false;
  return index == core.world.index.nodes.end() ||
         (index->second.attempts.empty() && index->second.claims.empty() &&
          index->second.replica_count == 0);
}

// People may want to read its logs afterwards.
bool HasItsLogs(Draft& draft, NodeId id, std::map<NodeId, Millis>& leaving) {
  const Soft& soft = draft.soft();
  if (!soft.fetches_logs) return true;
  const auto known = soft.leaving.find(id);
  const Millis since = known == soft.leaving.end() ? draft.now : known->second;
  leaving[id] = since;
  const bool is_known = known != soft.leaving.end() && soft.logs_fetched.contains(id);
  return is_known || draft.now - since > limits::kFetchLogsMax;
}

void ReleaseIdle(Draft& draft) {
  std::map<NodeId, Millis>& idle_since = draft.soft().idle_since;
  std::map<std::string, size_t> staying;
  for (const auto& [number, machine] : draft.state().machines)
    staying[machine.pool] += machine.is_live() && !IsLeaving(draft.state(), machine) ? 1 : 0;
  std::vector<uint64_t> idle;
  std::map<NodeId, Millis> still_idle, leaving;
  AskedNodes asked(draft.core);
  for (const auto& [number, machine] : draft.state().machines) {
    const Node* node = NodeOf(draft.state(), machine);
    if (!machine.is_live() || node == nullptr || !IsIdle(draft.core, *node)) continue;
    const auto known = idle_since.find(node->id);
    const Millis since = known == idle_since.end() ? draft.now : known->second;
    still_idle[node->id] = since;
    const PoolSpec& pool = draft.soft().pools.at(machine.pool);
    const bool is_spare = node->draining || staying[pool.name] > pool.min_workers;
    if (draft.now - since < pool.idle_timeout || !is_spare || !asked.TrySpare(node->id)) continue;
    if (!node->draining) --staying[pool.name];
    if (HasItsLogs(draft, node->id, leaving)) idle.push_back(number);
  }
  idle_since = std::move(still_idle);
  draft.soft().leaving = std::move(leaving);
  std::erase_if(draft.soft().logs_fetched,
                [&](NodeId id) { return !draft.soft().leaving.contains(id); });
  for (uint64_t number : idle) Release(draft, number, "it was idle");
}

}  // namespace

std::string MachineName(uint64_t machine) { return "worker-" + std::to_string(machine); }

ProviderWishes WishesOf(const Core& core, Millis now) {
  const State& state = core.world.state;
  ProviderWishes wishes;
  for (const auto& [number, machine] : state.machines) {
    if (!machine.is_live()) {
      if (IsConfirmed(machine)) wishes.terminate.push_back({number, machine.id});
      else wishes.needs_list = true;
      continue;
    }
    if (IsConfirmed(machine) || IsHeldBack(state, machine.pool, now)) continue;
    if (wishes.create.empty() || wishes.create.back().request != machine.request)
      wishes.create.push_back({machine.request, machine.pool, {}});
    wishes.create.back().machines.push_back(number);
  }
  return wishes;
}

absl::Status CheckMayJoin(const State& state, uint64_t machine) {
  const auto found = state.machines.find(machine);
  if (found != state.machines.end() && found->second.is_live()) return absl::OkStatus();
  return absl::PermissionDeniedError("machine " + std::to_string(machine) +
                                     " was released, or never asked for: it cannot join");
}

absl::Status OnRequestResources(Draft& draft, const input::RequestResources& input) {
  for (const RequestedBundles& one : input.bundles)
    RT_RETURN_IF_ERROR(CheckPossible(draft.core, {.bundles = {one.each}}));
  if (input.bundles != draft.state().requested_bundles)
    draft.Emit(event::ResourcesRequested{input.bundles, input.by});
  return absl::OkStatus();
}

absl::Status OnMachinesCreated(Draft& draft, const input::MachinesCreated& input) {
  event::MachinesCreated created{.request = input.request};
  for (const CreatedMachine& made : input.machines) {
    const auto found = draft.state().machines.find(made.machine);
    if (found == draft.state().machines.end() || IsConfirmed(found->second)) continue;
    if (found->second.request == input.request && !made.id.empty())
      created.machines.push_back(made);
  }
  if (!created.machines.empty()) draft.Emit(std::move(created));
  return absl::OkStatus();
}

absl::Status OnMachinesFailed(Draft& draft, const input::MachinesFailed& input) {
  const auto& machines = draft.state().machines;
  const auto open = std::find_if(machines.begin(), machines.end(), [&](const auto& item) {
    return item.second.request == input.request && !IsConfirmed(item.second);
  });
  if (open == machines.end() || input.error == ProviderError::kNone) return absl::OkStatus();
  const std::string pool = open->second.pool;
  const auto known = draft.state().pools.find(pool);
  const uint32_t failures = known == draft.state().pools.end() ? 0 : known->second.failures;
  draft.Emit(event::MachinesFailed{input.request, pool, input.error, input.reason,
                                   draft.now + RetryAfter(input.error, failures)});
  return absl::OkStatus();
}

absl::Status OnMachinesListed(Draft& draft, const input::MachinesListed& input) {
  std::set<uint64_t> listed;
  for (const input::MachinesListed::Item& item : input.machines) {
    if (item.machine == 0 || item.id.empty()) continue;
    listed.insert(item.machine);
    const auto found = draft.state().machines.find(item.machine);
    if (found == draft.state().machines.end()) {
      draft.Emit(event::MachineReleased{item.machine, item.pool, item.id,
                                        "the provider has it, and nobody needs it"});
    } else if (!IsConfirmed(found->second)) {
      draft.Emit(event::MachinesCreated{found->second.request, {{item.machine, item.id}}});
    }
  }
  std::vector<uint64_t> gone;
  for (const auto& [number, machine] : draft.state().machines) {
    if (listed.contains(number)) continue;
    // A live machine that is not confirmed is asked for again, under the same number.
    const Millis since = IsConfirmed(machine) ? machine.created_at : machine.released_at;
    if (since != 0 && since < input.complete_before) gone.push_back(number);
  }
  for (uint64_t number : gone) {
    const Machine machine = draft.state().machines.at(number);
    draft.Emit(event::MachineDeleted{number, "the provider does not have it"});
    if (NodeOf(draft.state(), machine) != nullptr)
      OnRemoveNode(draft, {machine.node, "its machine is gone"}).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status OnMachinesTerminated(Draft& draft, const input::MachinesTerminated& input) {
  for (uint64_t number : input.machines) {
    const auto found = draft.state().machines.find(number);
    if (found == draft.state().machines.end() || found->second.is_live()) continue;
    const std::string reason = found->second.reason;
    draft.Emit(event::MachineDeleted{number, reason});
  }
  return absl::OkStatus();
}

void ReviewPools(Draft& draft) {
  if (draft.soft().pools.empty() && draft.state().machines.empty()) return;
  ReleaseUseless(draft);
  ReleaseIdle(draft);
  RequestMachines(draft);
}

bool IsAboutMachines(const Record& record) {
  return std::holds_alternative<event::MachinesRequested>(record.event) ||
         std::holds_alternative<event::MachinesCreated>(record.event) ||
         std::holds_alternative<event::MachineReleased>(record.event) ||
         std::holds_alternative<event::MachineDeleted>(record.event);
}

std::vector<PoolNow> PoolsFor(const Core& core, const ResourceRequest& wanted, Millis now) {
  std::vector<PoolNow> pools = PoolsOf(core, now);
  std::erase_if(pools, [&](const PoolNow& pool) { return !PoolCouldHold(pool, wanted); });
  return pools;
}

bool IsAtMaxWorkers(const Core& core) {
  return core.soft.max_workers && core.world.state.machines.size() >= *core.soft.max_workers;
}

}  // namespace rt
