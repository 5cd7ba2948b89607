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
#include "common/spec/gpu_type.h"
#include "common/spec/pool.h"
#include "common/spec/slips.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/freeze.h"
#include "head/core/links.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
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

// The sizes of the nodes that joined, whatever they do now: a gpu with a fault may be well again.
std::vector<Resources> SizesOf(const World& world) {
  std::vector<Resources> sizes;
  for (const auto& [id, node] : world.state.nodes) {
    if (node.gone || !node.ready) continue;
    Resources& size = sizes.emplace_back(node.inventory.resources);
    for (const GpuInfo& gpu : node.inventory.gpus) size.gpu += gpu.fault.empty() ? 0 : kUnit;
  }
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

// Nodes whose size is not known before they join may have any type.
absl::Status CheckGpuTypes(const std::vector<Resources>& sizes, const ResourceRequest& wanted) {
  if (wanted.gpu_types.empty() || sizes.empty()) return absl::OkStatus();
  std::set<std::string> known;
  const std::string prefix = GpuTypeResource("");
  for (const Resources& size : sizes) {
    if (size.gpu == kAnyGpus) return absl::OkStatus();
    for (const auto& [name, units] : size.custom)
      if (name.starts_with(prefix)) known.insert(name.substr(prefix.size()));
  }
  for (const std::string& type : wanted.gpu_types)
    if (known.contains(type)) return absl::OkStatus();
  const std::vector<std::string> there(known.begin(), known.end());
  return Invalid("asks for a gpu of type " + Join(wanted.gpu_types, " or ") + "; the nodes have " +
                     (there.empty() ? "none of a known type" : Join(there, " and ")),
                 "'rt node show' lists the gpus of a node; a pool whose machines have not joined "
                 "says its type as the resource " +
                     GpuTypeResource(wanted.gpu_types.front()));
}

// A frozen owner gets nothing but what it had.
bool ThawOne(Draft& draft, PreemptionPlan& preemptions, const ResourceRequest& wanted,
             const Owner& owner, const std::set<NodeId>& closed) {
  const ResourceRequest needed = NeededToThaw(wanted);
  const std::vector<Member> members = FindRuns(draft.state(), owner)->live()->members;
  if (TryThaw(draft, owner, closed)) {
    preemptions.NotePlaced(needed, members);
    return true;
  }
  preemptions.PlanForOwner(needed, owner);
  return false;
}

// Also on nodes that it avoids for their links, as long as it uses none of those, or, where nothing
// else is left, those that may be measured anew.
std::optional<std::vector<Member>> FindOverLinks(const Draft& draft, const ResourceRequest& wanted,
                                                 const Owner& owner,
                                                 const std::set<NodeId>& closed) {
  const Core& core = draft.core;
  auto members = FindPlaces(core, wanted, draft.now, closed);
  if (!members.has_value() || !UseSlowLink(core.world, owner, *members)) return members;
  std::set<NodeId> fewer = AvoidedForLinks(core.world, owner);
  fewer.insert(closed.begin(), closed.end());
  members = FindPlaces(core, wanted, draft.now, fewer);
  const bool may_be_one = wanted.strategy != Strategy::kStrictSpread && wanted.ranks_per_node == 0;
  if (!members.has_value() && may_be_one) {
    ResourceRequest on_one = wanted;
    on_one.strategy = Strategy::kStrictPack;
    members = FindPlaces(core, on_one, draft.now, closed);
  }
  if (members.has_value()) return members;
  fewer = AvoidedForLinks(core.world, owner, draft.now);
  fewer.insert(closed.begin(), closed.end());
  return FindPlaces(core, wanted, draft.now, fewer);
}

// Places the first of the queue that fits. An owner that avoids nodes does not delay the others.
bool PlaceOne(Draft& draft, PreemptionPlan& preemptions, const ResourceRequest& wanted,
              const ReadyQueue& queue) {
  for (const auto& [order, owner] : queue.by_order) {
    std::set<NodeId> closed = preemptions.ReservedFrom(-order.behind);
    closed.merge(ExcludedFor(draft.core.world, owner));
    if (IsFrozen(draft.core.world, owner)) {
      if (ThawOne(draft, preemptions, wanted, Owner(owner), closed)) return true;
      continue;
    }
    auto members = FindOverLinks(draft, wanted, owner, closed);
    if (members.has_value()) {
      preemptions.NotePlaced(wanted, *members);
      PlaceOn(draft, Owner(owner), *std::move(members), {});  // A copy: placing edits the queue.
      return true;
    }
    if (AvoidedBy(draft.core.world, owner).empty()) return false;
    preemptions.PlanForOwner(wanted, owner);  // Before later owners take that capacity.
  }
  return false;
}

// Backfills the first owner of all queues, unless it could preempt a running trial.
bool TryBackfill(Draft& draft, const PreemptionPlan& preemptions, const ResourceRequest& wanted,
                 const ReadyQueue& queue) {
  const auto& [order, owner] = *queue.by_order.begin();
  const World& world = draft.core.world;
  if (RunsBelow(world, -order.behind) || IsFrozen(world, owner)) return false;
  std::set<NodeId> closed = preemptions.ReservedFrom(-order.behind);
  closed.merge(AvoidedBy(world, owner));
  return Backfill(draft, wanted, queue, closed);
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
  // It may end before the next look at idle nodes.
  for (const Member& member : members) draft.soft().idle_since.erase(member.node);
  NoteRetriedLinks(draft, id, members);
  draft.Emit(
      event::AttemptPlaced{id, std::move(members), checkpoint, start_after, is_sized ? ranks : 0});
  NotePlaced(draft, id);
  // Trials that take turns: the next one waits from now on.
  if (const ExperimentIndex* index = ExperimentOf(draft.core.world, id.owner);
      index != nullptr && index->chosen.clones)
    ReviewTrials(draft, id.owner.trial().experiment);
}

std::set<NodeId> AvoidedBy(const World& world, const Owner& owner) {
  std::set<NodeId> avoided = ExcludedFor(world, owner);
  avoided.merge(AvoidedForLinks(world, owner));
  return avoided;
}

std::set<NodeId> ExcludedFor(const World& world, const Owner& owner) {
  const Runs& runs = *FindRuns(world.state, owner);
  if (runs.live() != nullptr && runs.live()->is_frozen()) {  // It continues where it is.
    std::set<NodeId> others;
    for (const auto& [id, node] : world.state.nodes)
      if (id != runs.live()->members.front().node) others.insert(id);
    return others;
  }
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
      if (!known.insert(name).second) {
        continue;  // Or its hint would be looked for once for each rank.
      } else if (const std::string hint = ResourceHint(name); !hint.empty()) {
        return SpecError("resources/" + name, "no node has the resource '" + name + "'", hint);
      }
  return absl::OkStatus();
}

absl::Status CheckFits(const Core& core, const ResourceRequest& wanted) {
  const std::vector<Resources> known = SizesOf(core.world);
  std::vector<Resources> planned = core.soft.node_types;
  // Types whose gpus are unknown until the nodes join do not count once all nodes have joined.
  if (known.size() >= planned.size())
    std::erase_if(planned, [](const Resources& type) { return type.gpu == kAnyGpus; });
  std::vector<Resources> all = known;
  all.insert(all.end(), planned.begin(), planned.end());
  for (const Resources& bundle : wanted.bundles) RT_RETURN_IF_ERROR(CheckBundle(all, bundle));
  RT_RETURN_IF_ERROR(CheckGpuTypes(all, wanted));
  if (!wanted.is_gang() || all.empty()) return absl::OkStatus();
  if (CouldFit(known, wanted) || CouldFit(planned, wanted)) return absl::OkStatus();
  return Invalid("asks for " + Describe(wanted) + "; the cluster's " +
                     std::to_string(std::max(known.size(), planned.size())) +
                     " nodes cannot hold them at once, even when empty",
                 kHint);
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

}  // namespace rt
