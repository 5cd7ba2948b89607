#include "head/core/index.h"

#include "common/algorithms/known_results.h"
#include "common/base/check.h"
#include "common/spec/journalled_spec.h"
#include "head/core/core.h"
#include "head/core/devices.h"
#include "head/core/draft.h"
#include "head/core/freeze.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"

namespace rt {
namespace {

// As many of its trials run or wait as may run at once.
bool IsFull(const ExperimentIndex& experiment) {
  const int64_t most = experiment.spec.max_concurrent;
  return most > 0 && experiment.ready + experiment.live.size() >= static_cast<uint64_t>(most);
}

// In the order of arrival, owners whose attempt was ended from outside come before all new ones:
// they have run, or had been placed.
constexpr uint64_t kNewOnes = uint64_t{1} << 62;

bool WasCutOff(const Runs& runs) {
  if (runs.live() != nullptr) return true;  // It is frozen.
  const AttemptOutcome last =
      runs.attempts.empty() ? AttemptOutcome::kNone : runs.attempts.back().outcome;
  return last == AttemptOutcome::kLost || last == AttemptOutcome::kPreempted ||
         last == AttemptOutcome::kHung || last == AttemptOutcome::kSuspended ||
         last == AttemptOutcome::kWithdrawn || last == AttemptOutcome::kResized;
}

void EraseFree(Index& index, NodeIndex& node, NodeId id) {
  if (node.listed) index.free.erase({node.listed_gpu, node.listed_cpu, id});
  node.listed = false;
}

bool Better(const Experiment& experiment, Mode mode, uint32_t a, uint32_t b) {
  const Trial& left = experiment.trials[a];
  const Trial& right = experiment.trials[b];
  if (left.has_best != right.has_best) return left.has_best;
  if (left.best == right.best) return a < b;
  return mode == Mode::kMax ? left.best > right.best : left.best < right.best;
}

// Makes the trial the best one if it is better than the one that was.
void ConsiderBest(ExperimentIndex& index, const Experiment& experiment, const Trial& trial) {
  if (!trial.has_best) return;
  if (index.best_trial &&
      !Better(experiment, index.spec.mode, trial.id.number, *index.best_trial))
    return;
  index.best_trial = trial.id.number;
  index.best_value = trial.best;
}

void FindBest(ExperimentIndex& index, const Experiment& experiment) {
  index.best_trial.reset();
  for (const Trial& trial : experiment.trials) ConsiderBest(index, experiment, trial);
}

// `sign` 1: the members take their capacity, -1: they return it. `frozen`: what they hold then.
void ChangeUsed(World& world, const Owner& owner, const std::vector<Member>& members, int sign,
                bool frozen = false) {
  const ResourceRequest& request = RequestOf(world, owner);
  for (const Member& member : members) {
    const Resources& whole = request.BundleOf(member.rank);
    const Resources bundle = frozen ? HeldFrozen(whole) : whole;
    NodeIndex& node = world.index.nodes[member.node];
    if (sign > 0) node.used.Add(bundle);
    else node.used.Subtract(bundle);
    for (uint32_t gpu : frozen ? std::vector<uint32_t>() : member.gpus) {
      int64_t& units = node.gpus_used[gpu];
      units += sign * UnitsPerDevice(bundle);
      if (units == 0) node.gpus_used.erase(gpu);
    }
    RefreshFree(world, member.node);
  }
}

}  // namespace

void RefreshFree(World& world, NodeId id) {
  Index& index = world.index;
  ++index.capacity_version;
  NodeIndex& node = index.nodes[id];
  EraseFree(index, node, id);
  const Node& facts = world.state.nodes.at(id);
  if (!facts.ready || !facts.counts() || facts.draining) return;
  const Resources free = FreeOn(world, id);
  node.listed = true;
  node.listed_gpu = free.gpu;
  node.listed_cpu = free.cpu;
  index.free.insert({free.gpu, free.cpu, id});
}

void CountReplicas(World& world, const std::vector<NodeId>& nodes, int64_t change) {
  for (NodeId id : nodes) world.index.nodes[id].replica_count += change;
}

void AddReady(World& world, const Owner& owner) {
  Index& index = world.index;
  if (index.ready_order.contains(owner)) return;
  if (ExperimentIndex* experiment = ExperimentOf(world, owner)) {
    if (IsFull(*experiment)) {
      experiment->throttled.insert(owner.number);
      return;
    }
    ++experiment->ready;
  }
  QueueOrder order{.behind = -PriorityOf(world, owner), .arrival = index.next_arrival++};
  if (!WasCutOff(*FindRuns(world.state, owner))) order.arrival |= kNewOnes;
  index.ready_order[owner] = order;
  index.ready[RequestOf(world, owner)].by_order[order] = owner;
}

void RemoveReady(World& world, const Owner& owner) {
  Index& index = world.index;
  auto order = index.ready_order.find(owner);
  if (ExperimentIndex* experiment = ExperimentOf(world, owner)) {
    experiment->throttled.erase(owner.number);
    if (order != index.ready_order.end()) --experiment->ready;
  }
  if (order == index.ready_order.end()) return;
  auto queue = index.ready.find(RequestOf(world, owner));
  queue->second.by_order.erase(order->second);
  if (queue->second.by_order.empty()) index.ready.erase(queue);
  index.ready_order.erase(order);
}

void TakeOwn(ExperimentIndex& index, const Trial& trial) {
  if (!trial.resources.empty()) {
    SpecReading<ResourceRequest> request = ReadJournalledResources(
        {trial.resources, trial.normal_resources, trial.spec_format});
    index.requests.emplace(trial.id.number, std::move(request.spec));
    for (const std::string& warning : request.warnings)
      index.warnings.push_back("trial " + ToString(trial.id) + ": " + warning);
  }
  if (trial.runs.ranks != 0) SizeRequest(index, trial.id.number, trial.runs.ranks);
  for (const std::string& name : {trial.name, trial.directory})
    if (!name.empty()) index.names.insert(name);
}

void SizeRequest(ExperimentIndex& index, uint32_t trial, uint32_t ranks) {
  auto [request, is_new] = index.requests.try_emplace(trial, index.spec.resources);
  request->second = request->second.WithRanks(ranks);
}

void ReleaseThrottled(World& world, ExperimentId id) {
  ExperimentIndex& experiment = world.index.experiments.at(id);
  while (!experiment.throttled.empty() && !IsFull(experiment)) {
    const uint32_t number = *experiment.throttled.begin();
    experiment.throttled.erase(number);
    AddReady(world, Owner::Of(TrialId{id, number}));
  }
}

void Throttle(World& world, ExperimentId id) {
  ExperimentIndex& experiment = world.index.experiments.at(id);
  const auto most = static_cast<uint64_t>(experiment.spec.max_concurrent);
  if (most == 0) return;
  for (auto last = experiment.pending.rbegin(); last != experiment.pending.rend(); ++last) {
    if (experiment.ready + experiment.live.size() <= most) return;
    const Owner owner = Owner::Of(TrialId{id, *last});
    if (!world.index.ready_order.contains(owner)) continue;
    RemoveReady(world, owner);
    experiment.throttled.insert(*last);
  }
}

void Occupy(World& world, const AttemptId& id, const Attempt& attempt) {
  for (const Member& member : attempt.members)
    world.index.nodes[member.node].attempts.insert({id, member.rank});
  if (attempt.is_backfilled()) {
    RT_CHECK(world.index.backfills.emplace(attempt.start_after, id).second);
  } else {
    ChangeUsed(world, id.owner, attempt.members, 1, attempt.is_frozen());
  }
  if (attempt.freeze.is_wanted()) world.index.freezes.insert(id);
  if (RequestOf(world, id.owner).is_elastic()) world.index.elastic.insert(id.owner);
  Claim(world, id, attempt);
}

void Claim(World& world, const AttemptId& id, const Attempt& attempt) {
  if (!attempt.resize.is_pending()) return;
  world.index.resizing.insert(id);
  const std::vector<Member> claims = attempt.Claims();
  for (const Member& member : claims)
    world.index.nodes[member.node].claims.insert({id, member.rank});
  ChangeUsed(world, id.owner, claims, 1);
}

void ReleaseClaim(World& world, const AttemptId& id, const Attempt& attempt) {
  if (world.index.resizing.erase(id) == 0) return;
  const std::vector<Member> claims = attempt.Claims();
  for (const Member& member : claims)
    world.index.nodes[member.node].claims.erase({id, member.rank});
  ChangeUsed(world, id.owner, claims, -1);
}

void Vacate(World& world, const AttemptId& id, const Attempt& attempt) {
  for (const Member& member : attempt.members)
    world.index.nodes[member.node].attempts.erase({id, member.rank});
  ReleaseClaim(world, id, attempt);
  world.index.elastic.erase(id.owner);
  auto& backfills = world.index.backfills;
  if (attempt.is_backfilled()) backfills.erase(attempt.start_after);
  world.index.freezes.erase(id);
  if (!attempt.is_backfilled())
    ChangeUsed(world, id.owner, attempt.members, -1, attempt.is_frozen());
  const auto found = backfills.find(id);
  if (found == backfills.end()) return;
  const AttemptId next = found->second;
  backfills.erase(found);
  Attempt& behind = *FindRuns(world.state, next.owner)->live();
  behind.start_after = attempt.start_after;
  if (behind.is_backfilled()) {
    backfills.emplace(behind.start_after, next);
  } else {
    ChangeUsed(world, next.owner, behind.members, 1);
  }
}

void RefreshBest(World& world, TrialId changed) {
  const Experiment& experiment = world.state.experiments.at(changed.experiment);
  ExperimentIndex& index = world.index.experiments.at(changed.experiment);
  const Trial& trial = experiment.trials[changed.number];
  const bool was_best = index.best_trial == changed.number;
  const bool got_worse = was_best && (!trial.has_best || (index.spec.mode == Mode::kMax
                                                              ? trial.best < index.best_value
                                                              : trial.best > index.best_value));
  if (got_worse) {  // A restart went back behind its best row: another trial may lead now.
    FindBest(index, experiment);
  } else if (was_best) {
    index.best_value = trial.best;
  } else {
    ConsiderBest(index, experiment, trial);
  }
}

void NotePaused(ExperimentIndex& index, const Trial& trial) {
  const bool is_paused = index.chosen.reviews && trial.pause_cause == PauseCause::kScheduler &&
                         trial.stop_cause == StopCause::kNone && trial.end == TrialEnd::kNone &&
                         trial.runs.running() == nullptr;
  if (is_paused) index.paused.insert(trial.id.number);
  else index.paused.erase(trial.id.number);
}

void NoteOutcome(ExperimentIndex& index, const Trial& trial) {
  index.outcomes.erase(trial.id.number);
  const std::vector<std::string> keys = index.spec.OutcomeKeys();
  if (trial.end == TrialEnd::kNone || keys.empty()) return;
  const absl::StatusOr<Json> metrics = Json::Parse(trial.last.metrics);
  const Json empty = Json::MakeObject();
  const RowView row{metrics.ok() ? *metrics : empty, trial.last.iteration, trial.last.time_total_s};
  std::vector<double> outcome;
  for (const std::string& key : keys)
    if (const std::optional<double> value = RowValue(row, key)) outcome.push_back(*value);
  if (outcome.size() < keys.size()) outcome.clear();
  index.outcomes.emplace(trial.id.number, std::move(outcome));
}

void NoteEnd(ExperimentIndex& index, const Trial& trial) {
  NoteOutcome(index, trial);
  switch (trial.end) {
    case TrialEnd::kCompleted:
      ++index.completed;
      return;
    case TrialEnd::kStopped:
      ++index.stopped;
      return;
    case TrialEnd::kFailed:
      ++index.failed;
      return;
    case TrialEnd::kNone:
      return;
  }
}

void UncountEnd(ExperimentIndex& index, TrialEnd end) {
  switch (end) {
    case TrialEnd::kCompleted:
      --index.completed;
      return;
    case TrialEnd::kStopped:
      --index.stopped;
      return;
    case TrialEnd::kFailed:
      --index.failed;
      return;
    case TrialEnd::kNone:
      return;
  }
}

void ExtendSpec(const Experiment& experiment, ExperimentSpec& spec) {
  for (InputFile& input : spec.inputs)
    if (input.env == kTrainableInput && !experiment.trainable.empty())
      input.manifest = experiment.trainable;
  if (!experiment.extended) return;
  spec.num_samples = experiment.num_samples;
  spec.time_budget = experiment.time_budget;
}

void IndexExperiment(World& world, const Experiment& experiment) {
  SpecReading<ExperimentSpec> reading = ReadJournalledExperiment(
      {experiment.spec_text, experiment.normal_spec, experiment.spec_format});
  ExperimentIndex& index = world.index.experiments[experiment.id];
  index.spec = std::move(reading.spec);
  index.warnings = std::move(reading.warnings);
  if (std::string unused = UnusedResults(index.spec); !unused.empty())
    index.warnings.push_back(std::move(unused));
  index.closed = reading.closed;
  ExtendSpec(experiment, index.spec);
  index.driver_record_seq = world.state.seq;
  index.chosen = ChosenBy(index.spec);
  index.stop_names = index.spec.stop_when.Names();
  if (!experiment.finishing) NoteOpen(world, experiment.id);
  if (experiment.finishing && !experiment.finished)
    world.index.unflushed_experiments.insert(experiment.id);
  if (experiment.job.value != 0)
    world.index.jobs[experiment.job].experiments.push_back(experiment.id);
}

void NoteOpen(World& world, ExperimentId id) {
  world.index.open_experiments.insert(id);
  const ChosenAlgorithms& chosen = world.index.experiments.at(id).chosen;
  if (chosen.has_model || chosen.explores) world.index.open_models.insert(id);
}

void NoteFinishing(World& world, ExperimentId id) {
  world.index.open_experiments.erase(id);
  world.index.open_models.erase(id);
  world.index.unflushed_experiments.insert(id);
}

void IndexJob(World& world, const Job& job) {
  SpecReading<JobSpec> reading =
      ReadJournalledJob({job.spec_text, job.normal_spec, job.spec_format});
  JobIndex& index = world.index.jobs[job.id];
  index.spec = std::move(reading.spec);
  index.warnings = std::move(reading.warnings);
}

void ReindexRuns(World& world, const Owner& owner) {
  if (const Attempt* live = FindRuns(world.state, owner)->live()) {
    Occupy(world, {owner, live->number, live->generation}, *live);
    if (!live->is_frozen()) return;
  }
  if (PolicyOf(owner).may_run(world.state, owner)) AddReady(world, owner);
}

void ReindexExperiment(World& world, const Experiment& experiment) {
  IndexExperiment(world, experiment);
  ExperimentIndex& index = world.index.experiments.at(experiment.id);
  for (const Trial& trial : experiment.trials)
    if (trial.runs.running() != nullptr) index.live.insert(trial.id.number);
  for (const Trial& trial : experiment.trials) {
    NoteEnd(index, trial);
    TakeOwn(index, trial);
    for (const Checkpoint& one : trial.runs.checkpoints) CountReplicas(world, one.replicas, 1);
    const bool runs = trial.runs.running() != nullptr;
    if (!runs && trial.end == TrialEnd::kNone) index.pending.insert(trial.id.number);
    NotePaused(index, trial);
    ReindexRuns(world, Owner::Of(trial.id));
  }
  FindBest(index, experiment);
}

void Reindex(World& world) {
  world.index = Index{};
  for (const auto& [id, node] : world.state.nodes) RefreshFree(world, id);
  for (const OwnerPolicy* policy : OwnerPolicies()) policy->reindex(world);
}

}  // namespace rt
