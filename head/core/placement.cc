// Placement: owners that wait get nodes, in order of arrival among those that ask for the same; a
// request that does not fit does not hold up smaller ones of another shape. Nodes come from an
// index by (free gpus, free cpus): best fit, cpu work stays off gpu nodes while others have room.
#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "head/core/draft.h"

namespace rt {
namespace {

Resources FreeOn(const World& world, NodeId id) {
  Resources free = world.state.nodes.at(id).inventory.resources;
  auto index = world.index.nodes.find(id);
  if (index != world.index.nodes.end()) free.Subtract(index->second.used);
  return free;
}

std::optional<NodeId> FindNode(const Core& core, const Resources& wanted, Millis now) {
  const auto& free = core.world.index.free;
  auto at = free.lower_bound({wanted.gpu, wanted.cpu, NodeId{}});
  while (at != free.end()) {
    auto [gpu, cpu, id] = *at;
    if (cpu < wanted.cpu) {  // Skip to the nodes of this gpu level that have the cpus.
      at = free.lower_bound({gpu, wanted.cpu, NodeId{}});
      continue;
    }
    if (MayTakeWork(core, id, now) && wanted.Fits(FreeOn(core.world, id))) return id;
    ++at;
  }
  return std::nullopt;
}

std::vector<uint32_t> ChooseGpus(const World& world, NodeId id, const Resources& wanted) {
  std::vector<uint32_t> chosen;
  const std::set<uint32_t>& used = world.index.nodes.at(id).gpus_used;
  int64_t count = wanted.gpu / kUnit;
  for (const GpuInfo& gpu : world.state.nodes.at(id).inventory.gpus) {
    if (static_cast<int64_t>(chosen.size()) >= count) break;
    if (!used.contains(gpu.index)) chosen.push_back(gpu.index);
  }
  return chosen;
}

void PlaceOn(Draft& draft, const Owner& owner, NodeId node, const Resources& wanted) {
  const Runs& runs = *FindRuns(draft.state(), owner);
  Member member{.rank = 0, .node = node, .gpus = ChooseGpus(draft.core.world, node, wanted)};
  uint64_t checkpoint = runs.checkpoints.empty() ? 0 : runs.checkpoints.back().id;
  draft.Emit(event::AttemptPlaced{{owner, runs.next_attempt, 1}, {member}, checkpoint});
}

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

// OK when a node that is known, or that the configuration can bring, could hold it when empty; also
// when nothing is known yet.
absl::Status CheckFits(const Core& core, const Resources& wanted) {
  Largest largest;
  for (const auto& [id, node] : core.world.state.nodes)
    if (!node.gone && node.ready) largest.Consider(node.inventory.resources, wanted);
  for (const Resources& type : core.soft.node_types) largest.Consider(type, wanted);
  if (largest.nodes == 0 || largest.fits) return absl::OkStatus();
  const std::string hint = "ask for less, or add a node that is large enough";
  std::vector<std::string> asked, has;
  for (const auto& [wish, most] : Shortages(wanted, largest.most)) {
    asked.push_back(Describe(wish));
    has.push_back(most);
  }
  if (asked.empty()) return Invalid("no single node has " + Describe(wanted), hint);
  return Invalid("asks for " + Join(asked, " and ") + "; the largest node has " +
                     Join(has, " and "), hint);
}

// Of a trial that is not to run for now, or is just being suspended.
Waiting WhyPaused(const State& state, const Owner& owner) {
  if (!owner.is_trial()) return {};
  const Trial* trial = FindTrial(state, owner.trial());
  const Experiment& experiment = state.experiments.at(owner.trial().experiment);
  if (trial == nullptr || trial->end != TrialEnd::kNone) return {};
  auto because = [](const std::string& reason) { return reason.empty() ? "" : ": " + reason; };
  if (trial->pause_cause != PauseCause::kNone)
    return {"paused" + because(trial->pause_reason),
            trial->pause_cause == PauseCause::kUser ? "rt trial resume " + ToString(trial->id)
                                                    : "who paused it"};
  if (experiment.paused)
    return {"its experiment is paused" + because(experiment.pause_reason),
            "rt exp resume " + std::to_string(experiment.id.value)};
  return {};
}

}  // namespace

const Resources& ResourcesOf(const World& world, const Owner& owner) {
  if (owner.is_trial())
    return world.index.experiments.at(owner.trial().experiment).spec.resources;
  return world.index.jobs.at(owner.job()).spec.resources;
}

absl::Status CheckPossible(const Core& core, const Resources& wanted) {
  return core.soft.node_types.empty() ? absl::OkStatus() : CheckFits(core, wanted);
}

void Place(Draft& draft) {
  draft.soft().try_place = false;
  std::set<Resources> blocked;
  while (true) {
    const auto& ready = draft.index().ready;
    const std::pair<const Resources, ReadyQueue>* next = nullptr;
    for (const auto& queue : ready) {
      if (blocked.contains(queue.first)) continue;
      if (next == nullptr ||
          queue.second.by_arrival.begin()->first < next->second.by_arrival.begin()->first)
        next = &queue;
    }
    if (next == nullptr) return;
    Resources wanted = next->first;
    Owner owner = next->second.by_arrival.begin()->second;
    std::optional<NodeId> node = FindNode(draft.core, wanted, draft.now);
    if (!node.has_value()) {
      blocked.insert(wanted);
      continue;
    }
    PlaceOn(draft, owner, *node, wanted);
  }
}

Waiting WhyWaiting(const Core& core, const Owner& owner, Millis now) {
  const World& world = core.world;
  if (Waiting paused = WhyPaused(world.state, owner); !paused.reason.empty()) return paused;
  if (owner.is_trial() &&
      world.index.experiments.at(owner.trial().experiment).held.contains(owner.trial().number))
    return {"max_concurrent trials of its experiment run already", "the end of one of them"};
  if (!world.index.ready_arrival.contains(owner)) return {};
  const Resources& wanted = ResourcesOf(world, owner);
  size_t usable = 0, known = 0;
  std::string nearest;
  for (const auto& [id, node] : world.state.nodes) {
    if (node.gone) continue;
    ++known;
    if (!MayTakeWork(core, id, now)) continue;
    ++usable;
    std::string shortage = DescribeShortage(wanted, FreeOn(world, id));
    if (nearest.empty() || shortage.size() < nearest.size()) nearest = shortage;
  }
  if (known == 0) return {"no node has joined the cluster yet", "a worker that joins"};
  if (usable == 0)
    return {"none of the " + std::to_string(known) + " nodes can take work now",
            "a node that comes back"};
  if (absl::Status possible = CheckFits(core, wanted); !possible.ok())
    return {MessageOf(possible), HintOf(possible)};
  if (nearest.empty()) return {"about to be placed", "nothing is missing"};
  return {"waits for " + Describe(wanted) + ": on the nearest node " + nearest + " free",
          "the end of a running trial, or another node"};
}

}  // namespace rt
