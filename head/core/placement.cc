// Placement: owners that wait get nodes, by priority and arrival among those that ask for the same;
// a request that does not fit does not hold up smaller ones of another shape (priorities.h says
// when it does). places.h finds the
// nodes: best fit, and cpu work stays off gpu nodes while other nodes have capacity.
#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/slips.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/pools.h"
#include "head/core/priorities.h"

namespace rt {
namespace {

struct Largest {
  Resources most;  // Of each kind, over all nodes.
  size_t nodes = 0;
  bool fits = false;

  void Consider(const Resources& total, const Resources& wanted) {
    ++nodes;
    fits = fits || wanted.Fits(total);
    most.cpu = std::max(most.cpu, total.cpu);
    most.gpu = std::max(most.gpu, total.gpu);
    most.memory = std::max(most.memory, total.memory);
    for (const auto& [name, units] : total.custom)
      most.custom[name] = std::max(most.custom[name], units);
  }
};

// Each kind of which no node has enough: what is wanted of it, and the most that one has.
std::vector<std::pair<Resources, std::string>> Shortages(const Resources& wanted,
                                                         const Resources& most) {
  std::vector<std::pair<Resources, std::string>> kinds;
  if (wanted.cpu > most.cpu) kinds.push_back({{.cpu = wanted.cpu}, FormatUnits(most.cpu)});
  if (wanted.gpu > most.gpu) kinds.push_back({{.gpu = wanted.gpu}, FormatUnits(most.gpu)});
  if (wanted.memory > most.memory)
    kinds.push_back({{.memory = wanted.memory}, Describe({.memory = most.memory})});
  for (const auto& [name, units] : wanted.custom) {
    auto found = most.custom.find(name);
    int64_t there = found == most.custom.end() ? 0 : found->second;
    if (units > there) kinds.push_back({{.custom = {{name, units}}}, FormatUnits(there)});
  }
  return kinds;
}

// The sizes of the nodes that joined, whatever they do now.
std::vector<Resources> SizesOf(const World& world) {
  std::vector<Resources> sizes;
  for (const auto& [id, node] : world.state.nodes)
    if (!node.gone && node.ready) sizes.push_back(node.inventory.resources);
  return sizes;
}

// The sizes of the present nodes that are not in `excluded`.
std::vector<Resources> SizesWithout(const World& world, const std::set<NodeId>& excluded) {
  std::vector<Resources> sizes;
  for (const auto& [id, node] : world.state.nodes) {
    const bool is_there = node.ready && node.counts() && !node.draining;
    if (is_there && !excluded.contains(id)) sizes.push_back(node.inventory.resources);
  }
  return sizes;
}

std::string NamesOf(const State& state, const std::set<NodeId>& nodes) {
  std::vector<std::string> names;
  for (NodeId id : nodes)  // One that left long ago is forgotten.
    if (const auto node = state.nodes.find(id); node != state.nodes.end())
      names.push_back(node->second.name);
  return Join(names, ", ");
}

const char kHint[] = "ask for less, or add a node that is large enough";

absl::Status CheckBundle(const std::vector<Resources>& sizes, const Resources& wanted) {
  Largest largest;
  for (const Resources& size : sizes) largest.Consider(size, wanted);
  if (largest.nodes == 0 || largest.fits) return absl::OkStatus();
  std::vector<std::string> asked, has;
  for (const auto& [wish, most] : Shortages(wanted, largest.most)) {
    asked.push_back(Describe(wish));
    has.push_back(most);
  }
  if (asked.empty()) return Invalid("no single node has " + Describe(wanted), kHint);
  return Invalid("asks for " + Join(asked, " and ") + "; the largest node has " +
                     Join(has, " and "), kHint);
}

// OK when the request fits on the known nodes, or on those that the configuration can bring, when
// they are empty; also when no node is known yet.
absl::Status CheckFits(const Core& core, const ResourceRequest& wanted) {
  const std::vector<Resources> known = SizesOf(core.world);
  std::vector<Resources> planned = core.soft.node_types;
  // Types whose gpus are unknown until the nodes join do not count once all nodes have joined.
  if (known.size() >= planned.size())
    std::erase_if(planned, [](const Resources& type) {
      return type.gpu == kAnyGpus;
    });
  std::vector<Resources> all = known;
  all.insert(all.end(), planned.begin(), planned.end());
  for (const Resources& bundle : wanted.bundles) RT_RETURN_IF_ERROR(CheckBundle(all, bundle));
  if (!wanted.is_gang() || all.empty()) return absl::OkStatus();
  if (CouldFit(known, wanted) || CouldFit(planned, wanted)) return absl::OkStatus();
  return Invalid("asks for " + Describe(wanted) + "; the cluster's " +
                     std::to_string(std::max(known.size(), planned.size())) +
                     " nodes cannot hold them at once, even when empty", kHint);
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
    names.push_back(node.name +
                    (node.drain_reason.empty() ? "" : " (" + node.drain_reason + ")"));
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
  return {"was asked to save and end" +
              (before.empty() ? "" : ": its capacity is for " + before),
          "its next checkpoint; it resumes when there is capacity again"};
}

// Places the first of the queue that fits. An owner that avoids nodes does not delay the others.
bool PlaceOne(Draft& draft, PreemptionPlan& preemptions, const ResourceRequest& wanted,
              const ReadyQueue& queue) {
  for (const auto& [order, owner] : queue.by_order) {
    const std::set<NodeId> avoided = AvoidedBy(draft.core.world, owner);
    std::set<NodeId> closed = preemptions.ReservedFrom(-order.behind);
    closed.insert(avoided.begin(), avoided.end());
    auto members = FindPlaces(draft.core, wanted, draft.now, closed);
    if (members.has_value()) {
      preemptions.NotePlaced(wanted, *members);
      PlaceOn(draft, Owner(owner), *std::move(members), {});  // A copy: placing edits the queue.
      return true;
    }
    if (avoided.empty()) return false;
    preemptions.PlanForOwner(wanted, owner);  // Before later owners take that capacity.
  }
  return false;
}

// Backfills the first owner of all queues, unless it could preempt a running trial.
bool TryBackfill(Draft& draft, const PreemptionPlan& preemptions, const ResourceRequest& wanted,
                 const ReadyQueue& queue) {
  const auto& [order, owner] = *queue.by_order.begin();
  const World& world = draft.core.world;
  if (RunsBelow(world, -order.behind)) return false;
  std::set<NodeId> closed = preemptions.ReservedFrom(-order.behind);
  closed.merge(AvoidedBy(world, owner));
  return Backfill(draft, wanted, queue, closed);
}

// Of an owner that is backfilled behind another trial.
Waiting WhyBackfilled(const State& state, const Owner& owner) {
  const Runs* runs = FindRuns(state, owner);
  const Attempt* live = runs == nullptr ? nullptr : runs->live();
  if (live == nullptr || !live->is_backfilled() || live->was_heard_of()) return {};
  const std::string before = ToString(live->start_after.owner.trial());
  return {"is queued behind trial " + before + " on " +
              state.nodes.at(live->members.front().node).name, "the end of trial " + before};
}

}  // namespace

void PlaceOn(Draft& draft, const Owner& owner, std::vector<Member> members,
             const AttemptId& start_after) {
  RetireUnreachable(draft, owner);
  const Runs& runs = *FindRuns(draft.state(), owner);
  const uint64_t checkpoint = runs.checkpoints.empty() ? 0 : runs.checkpoints.back().id;
  const AttemptId id{owner, runs.next_attempt};
  const uint32_t ranks = RequestOf(draft.core.world, owner).ranks;
  const bool is_sized = ranks != 1 || runs.ranks != 0;
  draft.Emit(event::AttemptPlaced{id, std::move(members), checkpoint, start_after,
                                  is_sized ? ranks : 0});
  NotePlaced(draft, id);
}

std::set<NodeId> AvoidedBy(const World& world, const Owner& owner) {
  const Runs& runs = *FindRuns(world.state, owner);
  if (runs.excluded.empty()) return {};
  const std::vector<Resources> others = SizesWithout(world, runs.excluded);
  return CouldFit(others, RequestOf(world, owner)) ? runs.excluded : std::set<NodeId>{};
}

// An error for a resource that no known node has and whose name resembles one of rt's own.
static absl::Status CheckNames(const Core& core, const ResourceRequest& wanted) {
  std::set<std::string> known;
  auto learn = [&](const Resources& resources) {
    for (const auto& [name, units] : resources.custom) known.insert(name);
  };
  for (const auto& [id, node] : core.world.state.nodes) learn(node.inventory.resources);
  for (const Resources& type : core.soft.node_types) learn(type);
  if (core.world.state.nodes.empty() && core.soft.node_types.empty()) return absl::OkStatus();
  for (const Resources& bundle : wanted.bundles)
    for (const auto& [name, units] : bundle.custom)
      if (const std::string hint = ResourceHint(name); !hint.empty() && !known.contains(name))
        return SpecError("resources/" + name, "no node has the resource '" + name + "'", hint);
  return absl::OkStatus();
}

absl::Status CheckPossible(const Core& core, const ResourceRequest& wanted) {
  RT_RETURN_IF_ERROR(CheckNames(core, wanted));
  return core.soft.node_types.empty() ? absl::OkStatus() : CheckFits(core, wanted);
}

void Place(Draft& draft) {
  draft.soft().try_place = false;
  std::set<const ReadyQueue*> blocked;
  PreemptionPlan preemptions(draft);
  while (true) {
    const auto& ready = draft.index().ready;
    const std::pair<const ResourceRequest, ReadyQueue>* next = nullptr;
    for (const auto& queue : ready) {
      if (blocked.contains(&queue.second)) continue;
      if (next == nullptr ||
          queue.second.by_order.begin()->first < next->second.by_order.begin()->first)
        next = &queue;
    }
    if (next == nullptr) return;
    if (PlaceOne(draft, preemptions, next->first, next->second)) continue;
    if (blocked.empty() && TryBackfill(draft, preemptions, next->first, next->second)) continue;
    blocked.insert(&next->second);
    preemptions.PlanFor(next->first, next->second);
  }
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

// "no node has … free".
static std::string HowMany(const Resources& wanted) {
  const bool one_kind = wanted.gpu == 0 && wanted.memory == 0 && wanted.custom.empty();
  if (!one_kind) return "all of it";
  return wanted.cpu == kUnit ? "one" : "that many";
}

static Waiting WhyNotPlaced(const Core& core, const Owner& owner, Millis now) {
  const World& world = core.world;
  if (Waiting held = WhyHeld(world, owner); !held.reason.empty()) return held;
  if (Waiting next = WhyBackfilled(world.state, owner); !next.reason.empty()) return next;
  if (Waiting evicted = WhyEvicted(world.state, owner); !evicted.reason.empty()) return evicted;
  if (Waiting resizing = WhyResizing(world.state, owner); !resizing.reason.empty()) return resizing;
  if (Waiting there = WhyThere(world.state, owner); !there.reason.empty()) return there;
  const ExperimentIndex* experiment = ExperimentOf(world, owner);
  if (experiment != nullptr && experiment->throttled.contains(owner.number))
    return {"waits: max_concurrent trials of its experiment run already", "the end of one of them"};
  if (Waiting ending = WhyEnding(world, owner); !ending.reason.empty()) return ending;
  if (!world.index.ready_order.contains(owner)) return {};
  const ResourceRequest& wanted = RequestOf(world, owner);
  const Resources& one = wanted.one();
  const std::set<NodeId> avoided = AvoidedBy(world, owner);
  const std::string excluded = NamesOf(world.state, avoided);
  const std::string but =
      excluded.empty() ? "" : ", and not on " + excluded + ", which was excluded for it";
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
    closest.Consider(one, node, FreeOn(world, id));
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
    return {MessageOf(possible), HintOf(possible)};
  const size_t ending = CountEndingFor(world, owner);
  const std::string whose =
      ending == 0 ? "the end of a running trial"
                  : std::to_string(ending) + " of lower priority that save and end now";
  const std::string frees =
      draining.empty() ? whose + ", or another node" : whose + ", another node" + drain;
  if (wanted.is_gang()) {
    return {"needs " + Describe(wanted) + ", all at once; " +
                std::to_string(CountPlaces(core, wanted, now)) + " of them fit now" + but,
            frees};
  }
  if (closest.shortage.empty()) {
    if (std::string before = QueuedBefore(world, owner); !before.empty())
      return {"waits: capacity is reserved for " + before,
              "the start of its trials, or another node"};
    return {"is about to be placed", "nothing is missing"};
  }
  return {"needs " + Describe(wanted) + "; no node has " + HowMany(one) +
              " free (closest: " + closest.node + ", " + closest.shortage + ")" + but,
          frees};
}

Waiting WhyWaiting(const Core& core, const Owner& owner, Millis now) {
  Waiting waiting = WhyNotPlaced(core, owner, now);
  const bool is_ready = core.world.index.ready_order.contains(owner);
  if (core.soft.pools.empty() || waiting.reason.empty() || !is_ready) return waiting;
  const std::string pools = WhatPoolsDo(core, RequestOf(core.world, owner), now);
  if (!pools.empty()) waiting.reason += "; " + pools;
  return waiting;
}

}  // namespace rt
