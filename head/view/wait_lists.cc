#include "head/view/wait_lists.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/base/limits.h"
#include "head/core/driver_hooks.h"
#include "head/core/owner_policy.h"
#include "head/view/parts.h"
#include "head/view/why.h"

namespace rt {
namespace {

constexpr size_t kShownMax = 100;

// Half of the part for either list.
bool HasSpace(size_t& used, const Json& item) {
  const size_t bytes = TextBytesOf(item);
  if (used + bytes > limits::kStatusPartBytes / 2) return false;
  used += bytes;
  return true;
}
// Of an experiment that asks its driver in vain.
void AddAsking(const Core& core, Millis now, WaitLists& waits) {
  for (ExperimentId id : core.world.index.open_experiments) {
    const std::string reason = WhyAsking(core, id, now);
    if (reason.empty()) continue;
    if (waits.waiting.array().size() >= limits::kStatusWaitingMax) {
      ++waits.left_out;
      continue;
    }
    auto heard = core.soft.drivers.find(id);
    Millis since = heard == core.soft.drivers.end() ? core.world.state.experiments.at(id).created_at
                                                    : heard->second;
    if (const DriverCall* call = FindDriverCall(core, id, now)) since = call->since;
    waits.waiting.Append(Json::MakeObject({{"id", "experiment " + std::to_string(id.value)},
                                           {"reason", reason},
                                           {"needs", Json()},
                                           {"since", TimeOrNull(since)}}));
  }
}

Json PendingItem(const Core& core, const Owner& owner, const ResourceRequest& resources,
                 const std::string& reason) {
  const Runs& runs = *FindRuns(core.world.state, owner);
  Millis since = PolicyOf(owner).created_at(core.world.state, owner);
  if (!runs.attempts.empty()) since = std::max(since, runs.attempts.back().ended_at);
  return Json::MakeObject({{"id", owner.is_trial() ? ToString(owner.trial()) : Describe(owner)},
                           {"reason", reason},
                           {"needs", ToJson(resources)},
                           {"since", TimeOrNull(since)}});
}

using WaitKey = std::tuple<Owner::Kind, uint64_t, std::set<NodeId>>;
struct WaitGroup {
  Json first;
  uint64_t count = 0;
  bool is_listed = false;
};

}  // namespace

WaitLists WaitsOf(const Core& core, const HeadFacts& facts, WaitReasons& reasons) {
  WaitLists waits;
  AddAsking(core, facts.now, waits);
  waits.pending = waits.waiting;
  waits.pending_bytes = waits.waiting_bytes = TextBytesOf(waits.waiting);
  size_t listed = waits.waiting.array().size(), shown = 0;
  for (Json& item : waits.waiting.array()) item.Set("count", 1);
  for (const auto& [resources, queue] : core.world.index.ready) {
    std::map<WaitKey, WaitGroup> groups;
    for (const auto& [order, owner] : queue.by_order) {
      // Executors of one need wait together, whichever session they are of.
      const uint64_t group_of = owner.is_executor() ? 0 : owner.group;
      const WaitKey key{owner.kind, group_of, FindRuns(core.world.state, owner)->excluded};
      if (listed >= limits::kStatusWaitingMax && !groups.contains(key)) {
        ++waits.left_out;
        continue;
      }
      WaitGroup& group = groups[key];
      if (group.count++ == 0) {
        ++listed;
        group.first = PendingItem(core, owner, resources, reasons.Of(owner).reason);
        group.is_listed = HasSpace(waits.waiting_bytes, group.first);
        if (!group.is_listed) group.first.Erase("needs");
      }
      if (waits.pending.array().size() < kShownMax && shown++ < kShownMax) {
        Json item = PendingItem(core, owner, resources, group.first.GetString("reason"));
        if (HasSpace(waits.pending_bytes, item)) waits.pending.Append(std::move(item));
      }
    }
    for (auto& [whose, group] : groups) {
      if (!group.is_listed) {
        waits.left_out += group.count;
        continue;
      }
      group.first.Set("count", group.count);
      waits.waiting.Append(std::move(group.first));
    }
  }
  return waits;
}

}  // namespace rt
