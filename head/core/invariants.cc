// What must hold after every Step, and the canonical bytes of a state.
#include <cstring>

#include "common/base/check.h"
#include "common/base/limits_elastic.h"
#include "common/base/limits_executors.h"
#include "head/core/core.h"
#include "head/core/devices.h"
#include "head/core/freeze.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

struct Dumper {
  std::string out;

  void Raw(const void* bytes, size_t size) { out.append(static_cast<const char*>(bytes), size); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void Put(T value) {
    Raw(&value, sizeof value);
  }
  template <class T>
    requires std::is_enum_v<T>
  void Put(T value) {
    Put(static_cast<uint64_t>(value));
  }
  void Put(const std::string& text) {
    Put(text.size());
    out += text;
  }
  template <class Tag>
  void Put(const Id<Tag>& id) {
    Put(id.value);
  }
  void Put(const TrialId& id) {
    Put(id.experiment);
    Put(id.number);
  }
  void Put(const Owner& owner) {
    Put(owner.kind);
    Put(owner.group);
    Put(owner.number);
  }
  void Put(const AttemptId& id) {
    Put(id.owner);
    Put(id.number);
    Put(id.generation);
  }
  template <class T>
  void Put(const std::vector<T>& items) {
    Put(items.size());
    for (const T& item : items) Put(item);
  }
  template <class T>
  void Put(const std::set<T>& items) {
    Put(items.size());
    for (const T& item : items) Put(item);
  }
  template <class K, class V>
  void Put(const std::map<K, V>& items) {
    Put(items.size());
    for (const auto& [key, value] : items) {
      Put(key);
      Put(value);
    }
  }
  template <HasFields T>
  void Put(const T& value) {
    ForEachField(value, [this](const char*, const auto& field) { this->Put(field); });
  }
};

void CheckRuns(const Runs& runs, bool over) {
  std::pair<uint32_t, uint32_t> newest;
  for (const Attempt& attempt : runs.attempts) {
    RT_CHECK(std::pair(attempt.number, attempt.generation) > newest);
    newest = {attempt.number, attempt.generation};
    if (&attempt != &runs.attempts.back()) RT_CHECK(attempt.ended_at != 0);
    RT_CHECK(attempt.ended_at == 0 || !attempt.resize.is_pending());
    const Freeze& freeze = attempt.freeze;
    RT_CHECK(attempt.ended_at == 0 || !freeze.is_wanted());
    RT_CHECK(!attempt.is_frozen() || (freeze.is_wanted() && attempt.members.size() == 1));
    RT_CHECK(!freeze.is_wanted() || attempt.is_frozen() || attempt.suspending);
  }
  RT_CHECK(newest.first < runs.next_attempt);
  if (over) RT_CHECK(runs.live() == nullptr);
  uint64_t last = 0;
  for (const Checkpoint& checkpoint : runs.checkpoints) {
    RT_CHECK(checkpoint.id > last && checkpoint.id < runs.next_checkpoint);
    last = checkpoint.id;
  }
  for (size_t i = 0; i < runs.outputs.size(); ++i) {
    RT_CHECK(runs.outputs[i].attempt == runs.outputs.front().attempt);
    RT_CHECK(runs.outputs[i].resizes == runs.outputs.front().resizes);
    if (i > 0) RT_CHECK(runs.outputs[i].rank > runs.outputs[i - 1].rank);
  }
}

void CheckMachines(const State& state) {
  for (const auto& [number, machine] : state.machines) {
    RT_CHECK(number != 0 && machine.number == number && number <= state.last_machine);
    RT_CHECK(machine.request != 0 && machine.request <= number);
    if (machine.node.value == 0) continue;
    RT_CHECK(state.nodes.at(machine.node).machine == number);
    // A node whose machine is to be removed has left the cluster.
    RT_CHECK(machine.is_live() || state.nodes.at(machine.node).gone);
  }
}

// What live attempts are to grow by on the node.
void AddClaims(const World& world, NodeId id, Resources& used,
               std::map<uint32_t, int64_t>& gpus_used) {
  for (const Fence& claim : world.index.nodes.at(id).claims) {
    const Attempt* live = FindLive(world.state, claim.attempt);
    RT_CHECK(live != nullptr && live->is_growing() && claim.rank >= live->members.size());
    const Member& member = live->resize.members.at(claim.rank);
    const Resources& bundle = RequestOf(world, claim.attempt.owner).one();
    RT_CHECK(member.node == id && world.state.nodes.at(id).counts());
    used.Add(bundle);
    for (uint32_t gpu : member.gpus) gpus_used[gpu] += UnitsPerDevice(bundle);
  }
}

void CheckResizes(const World& world) {
  size_t claims = 0, wanted = 0;
  for (const auto& [id, index] : world.index.nodes) claims += index.claims.size();
  for (const AttemptId& id : world.index.resizing) {
    const Attempt* live = FindLive(world.state, id);
    RT_CHECK(live != nullptr && live->resize.is_pending() && !live->is_backfilled());
    RT_CHECK(live->resize.requested_at != 0 && RequestOf(world, id.owner).is_uniform());
    wanted += live->Claims().size();
  }
  RT_CHECK(claims == wanted);
}

void CheckNodes(const World& world) {
  for (const auto& [id, node] : world.state.nodes)
    RT_CHECK(node.away_until == 0 || (node.ready && node.counts()));
  for (const auto& [id, node] : world.state.nodes)
    for (size_t i = 0; i < node.cleared_gpus.size(); ++i) {
      RT_CHECK(i == 0 || node.cleared_gpus[i - 1].uuid < node.cleared_gpus[i].uuid);
      RT_CHECK(node.cleared_gpus[i].quarantine != 0);
      RT_CHECK(!node.cleared_gpus[i].heard || !node.cleared_gpus[i].probe.empty());
    }
  for (const auto& [id, node] : world.state.nodes)
    for (size_t i = 0; i < node.faulty_gpus.size(); ++i) {
      RT_CHECK(i == 0 || node.faulty_gpus[i - 1].uuid < node.faulty_gpus[i].uuid);
      RT_CHECK(!node.faulty_gpus[i].what.empty());
    }
  size_t backfilled = 0;
  for (const auto& [id, index] : world.index.nodes) {
    const Node& node = world.state.nodes.at(id);
    Resources used;
    std::map<uint32_t, int64_t> gpus_used;
    for (const Fence& fence : index.attempts) {
      const Attempt* live = FindLive(world.state, fence.attempt);
      RT_CHECK(live != nullptr && live->members.at(fence.rank).node == id);
      const Resources& bundle =
          RequestOf(world, fence.attempt.owner).bundles.at(fence.rank);
      RT_CHECK(live->members.size() == RequestOf(world, fence.attempt.owner).bundles.size());
      if (node.draining) RT_CHECK(live->eviction_requested_at != 0);
      RT_CHECK(live->freeze.is_wanted() == world.index.freezes.contains(fence.attempt));
      if (live->is_backfilled()) {
        const Attempt* before = FindLive(world.state, live->start_after);
        RT_CHECK(before != nullptr && before->members == live->members);
        RT_CHECK(world.index.backfills.at(live->start_after) == fence.attempt);
        ++backfilled;
        continue;
      }
      if (live->is_frozen()) {
        used.Add(HeldFrozen(bundle));
        continue;
      }
      used.Add(bundle);
      for (uint32_t gpu : live->members[fence.rank].gpus)
        gpus_used[gpu] += UnitsPerDevice(bundle);
    }
    AddClaims(world, id, used, gpus_used);
    RT_CHECK(used == index.used);
    RT_CHECK(gpus_used == index.gpus_used);
    if (!node.counts()) RT_CHECK(index.attempts.empty());
    RT_CHECK(index.listed == (node.ready && node.counts() && !node.draining));
  }
  RT_CHECK(backfilled == world.index.backfills.size());
}

// The best trial is known without a scan; here it is looked for with one.
void CheckBest(const Experiment& experiment, const ExperimentIndex& index) {
  std::optional<double> best;
  for (const Trial& trial : experiment.trials) {
    if (!trial.has_best) continue;
    const bool max = index.spec.mode == Mode::kMax;
    if (!best || (max ? trial.best > *best : trial.best < *best)) best = trial.best;
  }
  RT_CHECK(best.has_value() == index.best_trial.has_value());
  if (!best) return;
  RT_CHECK(index.best_value == *best);
  RT_CHECK(experiment.trials.at(*index.best_trial).best == *best);
}

// One that has not ended runs, waits for a node or is being released, and only then is it indexed.
void CheckExecutors(const World& world) {
  const ExecutorIndex& index = world.index.executors;
  size_t open = 0, open_of_sessions = 0, known = 0, detached = 0;
  for (const auto& [id, executor] : world.state.executors) {
    const bool waits = world.index.ready_order.contains(Owner::Of(id));
    const bool is_delayed = executor.restart_at != 0;
    RT_CHECK(is_delayed == index.delayed.contains({executor.restart_at, id}));
    RT_CHECK(!is_delayed ||
             (executor.detached && !executor.is_over() && executor.runs.live() == nullptr));
    const bool may_wait = !executor.is_over() && !executor.release_requested && !is_delayed;
    RT_CHECK(waits == (may_wait && executor.runs.live() == nullptr));
    RT_CHECK(index.specs.contains(id) == !executor.is_over());
    RT_CHECK(index.sessions.at(SessionKey::Of(executor)).executors.contains(id));
    RT_CHECK(executor.is_over() == (executor.ended_seq != 0));
    RT_CHECK(id.value <= world.state.last_executor);
    open += executor.is_over() ? 0 : 1;
    detached += !executor.is_over() && executor.detached ? 1 : 0;
  }
  for (const auto& [key, session] : index.sessions) {
    RT_CHECK(!session.executors.empty());
    RT_CHECK(session.changed.size() == session.executors.size());
    RT_CHECK(session.by_change.size() == session.executors.size());
    for (const auto& [id, seq] : session.changed) {
      RT_CHECK(session.executors.contains(id) && session.by_change.contains({seq, id}));
      RT_CHECK(seq <= session.changed_seq);
    }
    open_of_sessions += session.open;
    known += session.executors.size();
  }
  RT_CHECK(open == index.open && open == open_of_sessions && open == index.specs.size());
  RT_CHECK(known == world.state.executors.size());
  RT_CHECK(index.delayed.size() <= open);
  RT_CHECK(detached == index.actors.size());
  for (const auto& [key, id] : index.dead_actors) {
    RT_CHECK(!index.actors.contains(key));
    RT_CHECK(world.state.executors.at(id).end == ExecutorEnd::kFailed);
  }
  RT_CHECK(index.ended.size() == known - open);
  RT_CHECK(index.ended.size() <= limits::kEndedExecutorsKept);
}

void CheckProfiles(const State& state) {
  RT_CHECK(state.profiles.size() <= limits::kProfilesMax);
  const Owner* before = nullptr;
  for (const JobProfile& one : state.profiles) {
    RT_CHECK(before == nullptr || *before < one.attempt.owner);
    before = &one.attempt.owner;
    RT_CHECK(one.profile.points.size() <= limits::kProfilePointsMax);
    for (size_t i = 1; i < one.profile.points.size(); ++i)
      RT_CHECK(one.profile.points[i - 1].shape() < one.profile.points[i].shape());
  }
}

}  // namespace

void CheckInvariants(const Core& core) {
  const World& world = core.world;
  size_t members = 0, placed_members = 0, resizing = 0;
  std::map<NodeId, int64_t> checkpoints;
  for (const auto& [id, experiment] : world.state.experiments) {
    const ExperimentIndex& index = world.index.experiments.at(id);
    uint64_t ready = 0;
    for (const Trial& trial : experiment.trials) {
      bool over = trial.end != TrialEnd::kNone;
      const bool runs = trial.runs.running() != nullptr;
      RT_CHECK(index.live.contains(trial.id.number) == runs);
      RT_CHECK(index.pending.contains(trial.id.number) == (!runs && !over));
      RT_CHECK(over || !experiment.finishing);
      if (!over) RT_CHECK(!index.outcomes.contains(trial.id.number));
      const bool waits = world.index.ready_order.contains(Owner::Of(trial.id));
      const bool throttled = index.throttled.contains(trial.id.number);
      RT_CHECK(!(waits && throttled) && (waits || throttled) == WantsNodes(experiment, trial));
      ready += waits ? 1 : 0;
      for (const Checkpoint& one : trial.runs.checkpoints)
        for (NodeId node : one.replicas) ++checkpoints[node];
    }
    RT_CHECK(!experiment.finished || experiment.finishing);
    const bool is_budget_paused =
        experiment.paused || experiment.finishing || experiment.search.over;
    RT_CHECK((experiment.budget_paused_at != 0) == is_budget_paused);
    RT_CHECK(ready == index.ready);
    const auto most = static_cast<uint64_t>(index.spec.max_concurrent);
    RT_CHECK(most == 0 || ready == 0 || ready + index.live.size() <= most);
    CheckBest(experiment, index);
  }
  for (const OwnerPolicy* policy : OwnerPolicies()) {
    policy->each(world.state, [&](const Owner& owner) {
      const Runs& runs = *FindRuns(world.state, owner);
      CheckRuns(runs, IsOver(world.state, owner));
      const Attempt* live = runs.live();
      if (live != nullptr) members += live->members.size();
      if (live != nullptr && live->resize.is_pending()) ++resizing;
    });
  }
  for (const auto& [id, index] : world.index.nodes) {
    placed_members += index.attempts.size();
    RT_CHECK(index.replica_count == checkpoints[id]);
  }
  RT_CHECK(members == placed_members);
  RT_CHECK(resizing == world.index.resizing.size());
  CheckExecutors(world);
  CheckResizes(world);
  CheckMachines(world.state);
  CheckNodes(world);
  CheckProfiles(world.state);
}

std::string CanonicalDump(const State& state) {
  Dumper dumper;
  dumper.Put(state);
  return std::move(dumper.out);
}

}  // namespace rt
