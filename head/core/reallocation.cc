// Reallocation: a trial that has just saved is paused, and resumes from that checkpoint with other
// resources. common/decide/reallocation.h, or a driver that allocates, says with which; this file
// says when.
#include "common/decide/reallocation.h"

#include <algorithm>
#include <cmath>

#include "common/spec/journalled_spec.h"
#include "head/core/backfill.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"

namespace rt {
namespace {

double NewestValueOf(const ExperimentSpec& spec, const ReallocationSpec& policy,
                     const Trial& trial) {
  const absl::StatusOr<Json> metrics = Json::Parse(trial.last.metrics);
  if (!metrics.ok()) return NAN;
  const RowView row{*metrics, trial.last.iteration, trial.last.time_total_s};
  return RowValue(row, policy.metric.empty() ? spec.metric : policy.metric).value_or(NAN);
}

// The policy, with the metric of the search where it has none of its own.
ReallocationSpec PolicyFor(const ExperimentSpec& spec) {
  ReallocationSpec policy = spec.reallocation;
  if (policy.metric.empty()) policy.is_max = spec.mode == Mode::kMax;
  return policy;
}

// Those that hold capacity, or wait for it.
std::vector<ReallocatedTrial> OpenTrials(const World& world, ExperimentId id,
                                         const ReallocationSpec& policy) {
  const Experiment& experiment = world.state.experiments.at(id);
  const ExperimentIndex& index = world.index.experiments.at(id);
  std::vector<ReallocatedTrial> open;
  auto add = [&](uint32_t number) {
    const Trial& trial = experiment.trials.at(number);
    open.push_back(
        {number, RequestOf(world, Owner::Of(trial.id)), NewestValueOf(index.spec, policy, trial)});
  };
  for (uint32_t number : index.live) add(number);
  for (uint32_t number : index.pending) {
    const Trial& trial = experiment.trials.at(number);
    const bool waits =
        trial.pause_cause == PauseCause::kNone || trial.pause_cause == PauseCause::kResources;
    if (waits && !index.throttled.contains(number) && !index.live.contains(number)) add(number);
  }
  return open;
}

// Of each kind of request, more owners that wait make no difference.
constexpr int64_t kWaitingMost = 1'000;

// What nobody has on nodes that take work, and what the trials of the experiment have, without what
// others wait for: they come first unless their priority is lower.
Resources AvailableTo(const World& world, ExperimentId id) {
  Resources available;
  for (const auto& [number, node] : world.state.nodes) {
    if (!node.ready || !node.counts() || node.draining) continue;
    const Resources& has = node.inventory.resources;
    const Resources& used = world.index.nodes.at(number).used;
    available.cpu += std::max<int64_t>(0, has.cpu - used.cpu);
    available.gpu += std::max<int64_t>(0, has.gpu - used.gpu);
  }
  for (uint32_t trial : world.index.experiments.at(id).live) {
    const Resources has = RequestOf(world, Owner::Of(TrialId{id, trial})).Total();
    available.cpu += has.cpu;
    available.gpu += has.gpu;
  }
  const int priority = world.index.experiments.at(id).spec.priority;
  for (const auto& [request, queue] : world.index.ready) {
    int64_t others = 0;
    for (const auto& [order, owner] : queue.by_order)
      if (order.behind <= -priority && !(owner.is_trial() && owner.trial().experiment == id))
        others = std::min<int64_t>(others + 1, kWaitingMost);
    available.cpu -= others * request.Total().cpu;
    available.gpu -= others * request.Total().gpu;
  }
  return available;
}

Json UnitsJson(int64_t units) {
  if (units % kUnit == 0) return Json(units / kUnit);
  return Json(static_cast<double>(units) / static_cast<double>(kUnit));
}

Json AsAsked(const Resources& resources) {
  Json json = Json::MakeObject({{"cpu", UnitsJson(resources.cpu)}});
  if (resources.gpu > 0) json.Set("gpu", UnitsJson(resources.gpu));
  if (resources.memory > 0) json.Set("memory", resources.memory);
  Json custom = Json::MakeObject();
  for (const auto& [name, units] : resources.custom) custom.Set(name, UnitsJson(units));
  if (!custom.object().empty()) json.Set("custom", std::move(custom));
  return json;
}

// As a user would write it.
Json AsAsked(const ResourceRequest& request) {
  Json json;
  if (!request.is_gang()) {
    json = AsAsked(request.one());
  } else {
    Json bundles = Json::MakeArray();
    for (const Resources& bundle : request.bundles) bundles.Append(AsAsked(bundle));
    json = Json::MakeObject({{"bundles", std::move(bundles)}, {"ranks", request.ranks}});
  }
  constexpr const char* kStrategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
  if (request.strategy != Strategy::kPack)
    json.Set("strategy", kStrategies[static_cast<size_t>(request.strategy)]);
  if (request.spread_gpus) json.Set("gpu_sharing", "spread");
  if (!request.gpu_types.empty()) {
    Json types = Json::MakeArray();
    for (const std::string& type : request.gpu_types) types.Append(type);
    json.Set("gpu_type", std::move(types));
  }
  return json;
}

// The most units above `low`, up to `high`, that fit; `low` where none does.
template <class Fits>
int64_t MostThatFits(int64_t low, int64_t high, const Fits& fits) {
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Whether the trial has what the policy gave to it, or what it began with.
bool IsGoverned(const ExperimentSpec& spec, const Trial& trial, const ResourceRequest& has) {
  if (trial.runs.ranks != 0) return false;  // A person has resized it.
  const int64_t units = AddedUnits(spec.reallocation, spec.resources, has);
  return units >= 0 && WithAddedUnits(spec.reallocation, spec.resources, units) == has;
}

int64_t WantedUnits(const World& world, TrialId id) {
  const ExperimentSpec& spec = world.index.experiments.at(id.experiment).spec;
  const ReallocationSpec policy = PolicyFor(spec);
  return UnitsFor(policy, spec.resources, AvailableTo(world, id.experiment),
                  OpenTrials(world, id.experiment, policy), id.number);
}

// Free capacity, that of the live attempt included.
std::vector<FreeCapacity> CapacitiesWithout(const Draft& draft, const Owner& owner,
                                            const Attempt& live) {
  std::vector<FreeCapacity> capacities = CapacitiesNow(draft.core, draft.now);
  ReturnCapacity(capacities, RequestOf(draft.core.world, owner), live.members);
  return capacities;
}

// What the policy of the experiment gives to a trial that runs; nullopt: what it has.
std::optional<ResourceRequest> NextByPolicy(const Draft& draft, const Trial& trial) {
  const World& world = draft.core.world;
  const Owner owner = Owner::Of(trial.id);
  const ExperimentSpec& spec = world.index.experiments.at(trial.id.experiment).spec;
  const ResourceRequest& has = RequestOf(world, owner);
  if (!IsGoverned(spec, trial, has)) return std::nullopt;
  const int64_t now = AddedUnits(spec.reallocation, spec.resources, has);
  int64_t wanted = WantedUnits(world, trial.id);
  if (wanted > now) {
    const std::vector<FreeCapacity> free = CapacitiesWithout(draft, owner, *trial.runs.live());
    const std::set<NodeId> avoided = AvoidedBy(world, owner);
    wanted = MostThatFits(now, wanted, [&](int64_t units) {
      std::vector<FreeCapacity> left = free;
      const ResourceRequest more = WithAddedUnits(spec.reallocation, spec.resources, units);
      return PutInto(left, more, avoided).has_value();
    });
  }
  if (wanted == now) return std::nullopt;
  return WithAddedUnits(spec.reallocation, spec.resources, wanted);
}

ResourceRequest Read(const Allocation& allocation) {
  return ReadJournalledResources(
             {allocation.resources, allocation.normal_resources, allocation.spec_format})
      .spec;
}

// What the driver gives to a trial that runs, if that fits; nullopt: what it has.
std::optional<ResourceRequest> NextByDriver(const Draft& draft, const Trial& trial) {
  if (trial.allocation.resources.empty() || trial.runs.ranks != 0) return std::nullopt;
  const Owner owner = Owner::Of(trial.id);
  std::vector<FreeCapacity> left = CapacitiesWithout(draft, owner, *trial.runs.live());
  ResourceRequest next = Read(trial.allocation);
  if (!PutInto(left, next, AvoidedBy(draft.core.world, owner))) return std::nullopt;
  return next;
}

// Where the driver's resources do not fit any more, the trial keeps what it had.
event::TrialReallocated AllocateAfterEnd(const Draft& draft, const Trial& trial) {
  const Allocation& given = trial.allocation;
  const std::set<NodeId> avoided = AvoidedBy(draft.core.world, Owner::Of(trial.id));
  const bool fits = !given.resources.empty() &&
                    FindPlaces(draft.core, Read(given), draft.now, avoided).has_value();
  if (!fits) return {trial.id, trial.resources, trial.normal_resources, trial.spec_format};
  return {trial.id, given.resources, given.normal_resources, given.spec_format};
}

}  // namespace

void ConsiderReallocation(Draft& draft, const AttemptId& attempt, uint64_t seq) {
  if (!attempt.owner.is_trial()) return;
  const World& world = draft.core.world;
  const TrialId id = attempt.owner.trial();
  const ExperimentSpec& spec = world.index.experiments.at(id.experiment).spec;
  if (!spec.reallocation.is_given() && !spec.driver.allocates) return;
  const Trial& trial = *FindTrial(world.state, id);
  const Attempt* live = FindLive(world.state, attempt);
  if (live == nullptr || live->suspending || live->replaced || live->is_frozen()) return;
  if (live->resize.is_pending()) return;  // A person's word counts.
  if (live->accepted.front() != seq) return;
  if (trial.stop_cause != StopCause::kNone || trial.pause_cause != PauseCause::kNone) return;
  const std::optional<ResourceRequest> next =
      spec.driver.allocates ? NextByDriver(draft, trial) : NextByPolicy(draft, trial);
  if (!next) return;
  draft.Emit(event::TrialPaused{id, PauseCause::kResources, "to resume with " + Describe(*next)});
}

void ReallocateAfterEnd(Draft& draft, TrialId id) {
  const World& world = draft.core.world;
  const ExperimentSpec& spec = world.index.experiments.at(id.experiment).spec;
  const Trial& trial = *FindTrial(world.state, id);
  const bool is_due =
      IsOpen(trial) && trial.pause_cause == PauseCause::kResources && trial.runs.live() == nullptr;
  if (!is_due) return;
  if (spec.driver.allocates) return draft.Emit(AllocateAfterEnd(draft, trial));
  const Owner owner = Owner::Of(id);
  const std::set<NodeId> avoided = AvoidedBy(world, owner);
  const int64_t units = MostThatFits(0, WantedUnits(world, id), [&](int64_t some) {
    const ResourceRequest more = WithAddedUnits(spec.reallocation, spec.resources, some);
    return FindPlaces(draft.core, more, draft.now, avoided).has_value();
  });
  event::TrialReallocated reallocated{.trial = id};
  if (units > 0) {
    const ResourceRequest next = WithAddedUnits(spec.reallocation, spec.resources, units);
    reallocated.resources = AsAsked(next).Dump();
    reallocated.normal_resources = NormalText(next);
    reallocated.spec_format = kSpecFormat;
  }
  draft.Emit(std::move(reallocated));
}

}  // namespace rt
