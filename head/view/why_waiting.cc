// Why an owner has no nodes, or is about to lose them.
#include <algorithm>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/gpu_type.h"
#include "head/core/executor_index.h"
#include "head/core/freeze.h"
#include "head/core/links.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/pools.h"
#include "head/core/priorities.h"
#include "head/view/parts.h"
#include "head/view/why.h"

namespace rt {
namespace {

std::string NamesOf(const State& state, const std::set<NodeId>& nodes) {
  std::vector<std::string> names;
  for (NodeId id : nodes)  // One that left long ago is forgotten.
    if (const auto node = state.nodes.find(id); node != state.nodes.end())
      names.push_back(node->second.name);
  return Join(names, ", ");
}

Waiting WhyHeld(const World& world, const Owner& owner) {
  const OwnerPolicy& policy = PolicyOf(owner);
  return policy.why_held == nullptr ? Waiting{} : policy.why_held(world, owner);
}

// "a (spot notice)": the nodes of a live attempt that drain.
std::string DrainingNodes(const State& state, const Attempt& live) {
  std::set<NodeId> nodes;
  for (const Member& member : live.members) nodes.insert(member.node);
  std::vector<std::string> names;
  for (NodeId id : nodes) {
    const Node& node = state.nodes.at(id);
    if (!node.draining) continue;
    names.push_back(node.name + (node.drain_reason.empty() ? "" : " (" + node.drain_reason + ")"));
  }
  return Join(names, ", ");
}

// Of an owner that runs on a draining node.
Waiting WhyEvicted(const State& state, const Owner& owner) {
  const Runs* runs = FindRuns(state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || live->eviction_requested_at == 0) return {};
  const std::string where = DrainingNodes(state, *live);
  if (where.empty()) return {};
  if (owner.is_executor() && !state.executors.at(owner.executor()).detached)
    return {"runs until its driver releases it or its node is gone: " + where + " drains",
            "the end of the drain"};
  if (!PolicyOf(owner).saves())
    return {"runs until its node is gone, then it is started again elsewhere: " + where + " drains",
            "the end of the drain"};
  return {"was asked for a checkpoint, to continue elsewhere: " + where + " drains",
          "its next checkpoint; without one it runs until its node is gone"};
}

// Of an owner whose live attempt is being resized.
Waiting WhyResizing(const State& state, const Owner& owner) {
  const Runs* runs = FindRuns(state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || !live->resize.is_pending()) return {};
  const size_t ranks = live->resize.members.size();
  return {"was asked for a checkpoint, to continue with " + std::to_string(ranks) +
              (ranks == 1 ? " rank" : " ranks"),
          live->is_growing() ? "its next checkpoint; without one in time it keeps its size"
                             : "its next checkpoint; without one in time it is ended"};
}

// Of an elastic owner that runs with fewer ranks than it may have.
Waiting WhySized(const Core& core, const Owner& owner, Millis now) {
  const World& world = core.world;
  if (!world.index.elastic.contains(owner)) return {};
  const ResourceRequest& request = RequestOf(world, owner);
  const size_t ranks = FindRuns(world.state, owner)->live()->members.size();
  if (ranks >= request.ranks_max) return {};
  const std::string has = "has " + std::to_string(ranks) + " of " +
                          std::to_string(request.ranks_min) + " to " +
                          std::to_string(request.ranks_max) + " ranks: ";
  const ElasticShare* share = FindShare(core, owner);
  const bool is_decided = share != nullptr && share->ranks == ranks;
  const std::string why = is_decided ? ShareText(*share) : "";
  if (CountFree(core, request.WithRanks(1), now, 1) == 0)
    return {has + "no node has " + Describe(request.one()) + " free for one more" +
                (why.empty() ? "" : "; " + why),
            "free capacity"};
  return {has + (why.empty() ? "its size is decided again soon" : why),
          "a decision, at most " + std::to_string(core.soft.elastic_interval / 1'000) +
              " s after its last size"};
}

// Of an owner that runs on an excluded node for lack of another one.
Waiting WhyThere(const State& state, const Owner& owner) {
  const Runs* runs = FindRuns(state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr) return {};
  std::set<NodeId> nodes;
  for (const Member& member : live->members)
    if (runs->excluded.contains(member.node)) nodes.insert(member.node);
  if (nodes.empty()) return {};
  return {"runs on " + NamesOf(state, nodes) +
              ", which was excluded for it: it fits on no other "
              "node",
          "another node"};
}

// Of an owner that was asked to save and end and is not paused.
Waiting WhyEnding(const World& world, const Owner& owner) {
  const Runs* runs = FindRuns(world.state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || !live->suspending) return {};
  const std::string before = QueuedBefore(world, owner);
  if (live->freeze.is_wanted())
    return {"was asked to save, and is then frozen where it is" +
                (before.empty() ? "" : ": its capacity is for " + before),
            "its next checkpoint; it continues when there is capacity again"};
  return {"was asked to save and end" + (before.empty() ? "" : ": its capacity is for " + before),
          "its next checkpoint; it resumes when there is capacity again"};
}

// Of an owner that is backfilled behind another trial.
Waiting WhyBackfilled(const State& state, const Owner& owner) {
  const Runs* runs = FindRuns(state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || !live->is_backfilled() || live->was_heard_of()) return {};
  const std::string before = ToString(live->start_after.owner.trial());
  return {
      "is queued behind trial " + before + " on " + state.nodes.at(live->members.front().node).name,
      "the end of trial " + before};
}

// Whether the gpus of the node have a type that the request may get.
bool HasType(const Node& node, const ResourceRequest& wanted) {
  const auto& custom = node.inventory.resources.custom;
  return wanted.gpu_types.empty() ||
         std::any_of(wanted.gpu_types.begin(), wanted.gpu_types.end(),
                     [&](const auto& type) { return custom.contains(GpuTypeResource(type)); });
}

// The node that lacks least of what is wanted: the fewest kinds, then the most cpus free.
struct Closest {
  std::string node, shortage;

  void Consider(const Resources& wanted, const Node& candidate, const Resources& free) {
    std::string lacks = DescribeShortage(wanted, free, candidate.inventory.resources);
    const std::pair score{std::count(lacks.begin(), lacks.end(), ','), -free.cpu};
    if (!node.empty() && score >= best_) return;
    best_ = score;
    node = candidate.name;
    shortage = std::move(lacks);
  }

 private:
  std::pair<int64_t, int64_t> best_;
};

// "; gpu 1 of a takes no work (…)": of the nodes that could take it otherwise, at most two.
std::string GpuFaults(const Core& core, Millis now) {
  constexpr size_t kNamed = 2;
  std::vector<std::string> said;
  size_t more = 0;
  for (const auto& [id, node] : core.world.state.nodes) {
    if (node.gone || !MayTakeWork(core, id, now)) continue;
    for (const GpuInfo& gpu : node.inventory.gpus) {
      if (gpu.fault.empty()) continue;
      if (said.size() == kNamed) ++more;
      else
        said.push_back("gpu " + std::to_string(gpu.index) + " of " + node.name +
                       " takes no work (" + gpu.fault + ")");
    }
  }
  if (more > 0) said.push_back(std::to_string(more) + " more");
  return said.empty() ? "" : "; " + Join(said, ", ");
}

// "no node has … free".
std::string HowMany(const Resources& wanted) {
  const bool one_kind = wanted.gpu == 0 && wanted.memory == 0 && wanted.custom.empty();
  if (!one_kind) return "all of it";
  return wanted.cpu == kUnit ? "one" : "that many";
}

// Of a detached actor whose processes failed one after another.
Waiting WhyDelayed(const State& state, const Owner& owner, Millis now) {
  const auto found =
      owner.is_executor() ? state.executors.find(owner.executor()) : state.executors.end();
  if (found == state.executors.end() || found->second.restart_at == 0) return {};
  const Executor& executor = found->second;
  const Attempt& last = executor.runs.attempts.back();
  const Millis left = std::max<Millis>(0, executor.restart_at - now);
  return {"restarts in " + std::to_string((left + 999) / 1'000) + " s: failed " +
              std::to_string(QuickFailures(executor.runs)) + " times in a row" +
              (last.reason.empty() ? "" : " (" + last.reason + ")"),
          "the end of its pause, at " + FormatTime(executor.restart_at)};
}

// Of an owner that continues where it is frozen.
Waiting WhyFrozen(const Core& core, const Owner& owner, Millis now) {
  const World& world = core.world;
  if (!IsFrozen(world, owner) || !world.index.ready_order.contains(owner)) return {};
  const Member& member = FindRuns(world.state, owner)->live()->members.front();
  const ResourceRequest needed = NeededToThaw(RequestOf(world, owner));
  const std::string node = world.state.nodes.at(member.node).name;
  return {"is frozen on " + node + ", and waits for its " + Describe(needed) + " there" +
              (needed.Total().gpu > 0 ? GpuFaults(core, now) : ""),
          "free capacity on " + node + "; when only another node or gpu has it for " +
              std::to_string(limits::kThawWait / 1'000) +
              " s, it starts there from its newest checkpoint"};
}

// What is to be known of a freeze beside the reason: where it is frozen, or why it is not.
std::string FreezeText(const World& world, const Owner& owner) {
  const Runs* runs = FindRuns(world.state, owner);
  if (runs == nullptr || runs->attempts.empty()) return "";
  const Attempt& newest = runs->attempts.back();
  if (newest.is_frozen() && !world.index.ready_order.contains(owner))
    return "; frozen on " + world.state.nodes.at(newest.members.front().node).name;
  return newest.freeze.refused.empty() ? "" : "; it was not frozen: " + newest.freeze.refused;
}

// Which nodes it avoids, and why.
std::string ButNotOn(const World& world, const Owner& owner, Millis now) {
  const std::string excluded = NamesOf(world.state, ExcludedFor(world, owner));
  const std::string slow = SlowLinksText(world, owner);
  std::string text =
      excluded.empty() ? "" : ", and not on " + excluded + ", which was excluded for it";
  if (slow.empty()) return text;
  return text + ", and not over the slow links between " + slow + ", because it asks for " +
         FormatDouble(AskedOfLinks(world, owner)) + " GB/s" + RetryText(world, owner, now);
}

// `ending`: trials that end for it. `drain`: ", or the end of the drain of …", or "".
std::string FreesText(size_t ending, bool has_faults, const std::string& drain) {
  std::string text = ending == 0
                         ? "the end of a running trial"
                         : std::to_string(ending) + " of lower priority that save and end now";
  if (has_faults) text += ", a gpu that takes work again";
  return text + (drain.empty() ? ", or another node" : ", another node" + drain);
}

Waiting WhyNotPlaced(const Core& core, const Owner& owner, Millis now) {
  const World& world = core.world;
  if (Waiting held = WhyHeld(world, owner); !held.reason.empty()) return held;
  if (Waiting delayed = WhyDelayed(world.state, owner, now); !delayed.reason.empty())
    return delayed;
  if (Waiting frozen = WhyFrozen(core, owner, now); !frozen.reason.empty()) return frozen;
  if (Waiting next = WhyBackfilled(world.state, owner); !next.reason.empty()) return next;
  if (Waiting evicted = WhyEvicted(world.state, owner); !evicted.reason.empty()) return evicted;
  if (Waiting resizing = WhyResizing(world.state, owner); !resizing.reason.empty()) return resizing;
  if (Waiting there = WhyThere(world.state, owner); !there.reason.empty()) return there;
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  if (experiment != nullptr && experiment->throttled.contains(owner.number))
    return {"waits: max_concurrent trials of its experiment run already", "the end of one of them"};
  if (Waiting ending = WhyEnding(world, owner); !ending.reason.empty()) return ending;
  if (!world.index.ready_order.contains(owner)) return WhySized(core, owner, now);
  const ResourceRequest& wanted = RequestOf(world, owner);
  const Resources& one = wanted.one();
  const std::set<NodeId> avoided = AvoidedBy(world, owner);
  const std::string but = ButNotOn(world, owner, now);
  size_t usable = 0, known = 0;
  Closest closest;
  std::vector<std::string> draining;
  for (const auto& [id, node] : world.state.nodes) {
    if (node.gone) continue;
    ++known;
    if (node.draining) draining.push_back(node.name);
    if (node.draining || !MayTakeWork(core, id, now)) continue;
    if (avoided.contains(id)) continue;
    ++usable;
    if (HasType(node, wanted)) closest.Consider(one, node, FreeOn(world, id));
  }
  if (known == 0) return {"no node has joined the cluster yet", "a worker that joins"};
  const std::string drain =
      draining.empty() ? "" : ", or the end of the drain of " + Join(draining, ", ");
  if (usable == 0)
    return {(known == 1 ? "waits: the only node cannot"
                        : "waits: none of the " + std::to_string(known) + " nodes can") +
                std::string(" take work now") + but,
            draining.empty() ? "a node that comes back" : "another node" + drain};
  if (absl::Status possible = CheckFits(core, wanted); !possible.ok())
    return {MessageOf(possible) + (wanted.Total().gpu > 0 ? GpuFaults(core, now) : ""),
            HintOf(possible)};
  const size_t ending = CountEndingFor(world, owner);
  const std::string faults = wanted.Total().gpu > 0 ? GpuFaults(core, now) : "";
  const std::string frees = FreesText(ending, !faults.empty(), drain);
  if (wanted.is_gang()) {
    return {"needs " + Describe(wanted) + ", all at once; " +
                std::to_string(CountPlaces(core, wanted, now)) + " of them fit now" + but + faults,
            frees};
  }
  if (closest.node.empty())
    return {"needs " + Describe(wanted) + "; no node with such gpus can take work now" + but,
            frees};
  if (closest.shortage.empty()) {
    if (std::string before = QueuedBefore(world, owner); !before.empty())
      return {"waits: capacity is reserved for " + before,
              "the start of its trials, or another node"};
    return {"is about to be placed", "nothing is missing"};
  }
  return {"needs " + Describe(wanted) + "; no node has " + HowMany(one) +
              " free (closest: " + closest.node + ", " + closest.shortage + ")" + but + faults,
          frees};
}

}  // namespace

std::string WhatPoolsDo(const Core& core, const ResourceRequest& wanted, Millis now) {
  const State& state = core.world.state;
  std::vector<std::string> said;
  for (const PoolNow& pool : PoolsFor(core, wanted, now)) {
    const auto trouble = state.pools.find(pool.spec.name);
    std::string what;
    if (trouble != state.pools.end()) {
      const Millis left = std::max<Millis>(0, trouble->second.retry_at - now);
      what = std::string(NameOf(trouble->second.error)) + " (" + trouble->second.reason +
             "), tried again in " + std::to_string((left + 999) / 1'000) + " s";
    } else if (pool.pending > 0) {
      what = std::to_string(pool.pending) + (pool.pending == 1 ? " machine" : " machines") +
             " requested";
    } else if (pool.live + pool.ending >= pool.spec.max_workers) {
      what = "at max_workers " + std::to_string(pool.spec.max_workers);
      if (pool.ending > 0) what += ", " + std::to_string(pool.ending) + " being removed";
    } else if (IsAtMaxWorkers(core)) {
      what = "max_workers " + std::to_string(*core.soft.max_workers) + " of the cluster is reached";
    } else {
      what = "a machine is about to be requested";
    }
    std::string& text = said.emplace_back("pool ");
    text += pool.spec.name;
    text += ": ";
    text += what;
  }
  return Join(said, "; ");
}

Waiting WhyWaiting(const Core& core, const Owner& owner, Millis now) {
  Waiting waiting = WhyNotPlaced(core, owner, now);
  if (!waiting.reason.empty()) waiting.reason += FreezeText(core.world, owner);
  const bool is_ready = core.world.index.ready_order.contains(owner);
  if (core.soft.pools.empty() || waiting.reason.empty() || !is_ready) return waiting;
  const std::string pools = WhatPoolsDo(core, RequestOf(core.world, owner), now);
  if (!pools.empty()) waiting.reason += "; " + pools;
  return waiting;
}

}  // namespace rt
