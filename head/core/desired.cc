#include "head/core/desired.h"

#include <algorithm>
#include <cmath>

#include "common/algorithms/registry.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "head/core/draft.h"
#include "head/core/names.h"
#include "head/core/owner_policy.h"
#include "head/core/profiles.h"

namespace rt {
namespace {

constexpr char kCounter[] = "training_iteration";
// A program that has it in its environment gets all variables of torchrun, also as the only rank.
constexpr char kTorchrunId[] = "TORCHELASTIC_RUN_ID";

// As a shell counts, when it is whole.
std::string NumberText(double value) {
  const bool is_whole = std::abs(value) < 1e15 && std::trunc(value) == value;
  return is_whole ? std::to_string(static_cast<int64_t>(value)) : Json(value).Dump();
}

// What the trial's side needs to end exactly where the rules say. Rules and the scheduler apply to
// rank 0. The other ranks get the rules that all ranks meet at the same step, so that none is left
// waiting for the others.
std::string ControlFor(const ExperimentIndex& index, const Trial& trial, uint32_t rank) {
  const ExperimentSpec& spec = index.spec;
  const bool is_first = rank == 0;
  Json control = Json::MakeObject();
  control.Set("metric", spec.metric);
  control.Set("mode", spec.mode == Mode::kMax ? "max" : "min");
  const TrialLimits& limits = index.chosen.LimitsOf(trial.bracket);
  control.Set("time_attr", limits.time_attr);
  Json milestones = Json::MakeArray();
  for (double milestone : limits.milestones)
    if (is_first && !trial.milestones.contains(milestone)) milestones.Append(milestone);
  const bool knows_max_t = limits.ends_at_max_t && (is_first || limits.time_attr == kCounter);
  control.Set("max_t", knows_max_t && limits.max_t ? Json(*limits.max_t) : Json());
  control.Set("milestones", std::move(milestones));
  Json rules = Json::MakeArray();
  for (const StopRule& rule : spec.stop) {
    if (!is_first && rule.key != kCounter) continue;
    rules.Append(Json::MakeObject({{"key", rule.key},
                                   {"at_most", rule.at_most},
                                   {"threshold", rule.threshold}}));
  }
  control.Set("stop", std::move(rules));
  if (is_first && spec.stop_when.is_given()) control.Set("stop_when", spec.stop_when.tree);
  control.Set("judged", spec.driver.schedules && is_first);
  return control.Dump();
}

}  // namespace

void FillTrial(const World& world, const Attempt& attempt, LaunchSpec& launch) {
  TrialId id = launch.fence.attempt.owner.trial();
  const Experiment& experiment = world.state.experiments.at(id.experiment);
  const ExperimentIndex& index = world.index.experiments.at(id.experiment);
  const ExperimentSpec& spec = index.spec;
  const Trial& trial = experiment.trials.at(id.number);
  auto params = Json::Parse(trial.params);
  RT_CHECK(params.ok());
  auto argv = SubstituteCommand(spec.command, *params, spec.space);
  if (argv.ok()) launch.argv = *std::move(argv);
  else launch.refusal = MessageOf(argv.status());
  launch.env = spec.env;
  launch.env["RT_EXPERIMENT_NAME"] = spec.name;
  launch.bundle = spec.bundle;
  launch.cwd = spec.cwd;
  launch.inputs = spec.inputs;
  launch.params = trial.params;
  launch.resources = RequestOf(world, launch.fence.attempt.owner).bundles.at(launch.fence.rank);
  if (!trial.resources.empty()) {  // Its driver cannot know them when it writes the environment.
    launch.env["RT_RESOURCES"] = trial.resources;
    const int64_t cpus = std::max<int64_t>(1, launch.resources.cpu / kUnit);
    launch.env.try_emplace("OMP_NUM_THREADS", std::to_string(cpus));
  }
  if (launch.world_size == 1) launch.durable_after = spec.checkpoints.durable_after;
  launch.limit_cpu = spec.limit_cpu;
  launch.report_regex = spec.report_regex;
  for (const RetryRule& rule : spec.retry)
    if (!rule.log.empty()) launch.log_patterns.push_back(rule.log);
  launch.watchdog_factor = spec.watchdog.factor;
  launch.watchdog_min = spec.watchdog.min;
  launch.watchdog_dump = spec.watchdog.dump;
  launch.preflight = spec.preflight.wanted;
  launch.preflight_min_bus_gbps = spec.preflight.min_bus_gbps;
  launch.name = TrialName(experiment, index, id.number);
  launch.env["RT_TRIAL_NAME"] = launch.name;
  const TrialLimits& limits = index.chosen.LimitsOf(trial.bracket);
  if (limits.max_t.has_value()) launch.env["RT_MAX_T"] = NumberText(*limits.max_t);
  launch.control = ControlFor(index, trial, launch.fence.rank);
  for (const Checkpoint& checkpoint : trial.runs.checkpoints) {
    if (checkpoint.id != attempt.checkpoint) continue;
    launch.checkpoint = checkpoint.manifest;
    launch.checkpoint_shards = checkpoint.shards;
    launch.checkpoint_on_replicas = !checkpoint.is_stored();
    launch.iteration_base = checkpoint.iteration;
    launch.time_total_base_s = checkpoint.time_total_s;
  }
}

namespace {

// What torchrun would set: where the rank stands among all and on its node, and where they meet.
void FillRank(const World& world, const Attempt& attempt, LaunchSpec& launch) {
  const uint32_t rank = launch.fence.rank;
  const NodeId node = attempt.members[rank].node;
  std::vector<NodeId> nodes;  // By first appearance.
  uint32_t local_rank = 0, local_world_size = 0;
  for (uint32_t other = 0; other < launch.world_size; ++other) {
    const NodeId theirs = attempt.members[other].node;
    if (std::find(nodes.begin(), nodes.end(), theirs) == nodes.end()) nodes.push_back(theirs);
    if (theirs != node) continue;
    local_rank += other < rank ? 1 : 0;
    ++local_world_size;
  }
  const auto group = std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
  const std::string& address = world.state.nodes.at(nodes.front()).inventory.address;
  auto set = [&](const char* name, auto value) { launch.env[name] = std::to_string(value); };
  set("RANK", rank);
  set("WORLD_SIZE", launch.world_size);
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", local_world_size);
  set("GROUP_RANK", group);
  set("NODE_RANK", group);
  set("GROUP_WORLD_SIZE", nodes.size());
  if (launch.env.contains(kTorchrunId)) {
    set("ROLE_RANK", rank);
    set("ROLE_WORLD_SIZE", launch.world_size);
    const Runs& runs = *FindRuns(world.state, launch.fence.attempt.owner);
    set("TORCHELASTIC_RESTART_COUNT", runs.failures);
  }
  launch.env["MASTER_ADDR"] = nodes.size() == 1 || address.empty() ? "127.0.0.1" : address;
  launch.port = attempt.port;
  launch.keeps_port = rank == 0;
  launch.rank0_node = nodes.front().value;
  if (group == 0)
    for (uint32_t other = 0; other < launch.world_size; ++other)
      launch.rank_nodes.push_back(attempt.members[other].node);
}

// The devices that the attempt holds on the rank's node, by rank: each program sees those of its
// neighbours too and takes its own by LOCAL_RANK, as with torchrun.
std::vector<std::string> GpusFor(const World& world, const Attempt& attempt, uint32_t rank) {
  std::vector<std::string> uuids;
  const NodeId node = attempt.members[rank].node;
  for (const Member& member : attempt.members) {
    if (member.node != node) continue;
    for (uint32_t chosen : member.gpus)
      for (const GpuInfo& gpu : world.state.nodes.at(node).inventory.gpus)
        if (gpu.index == chosen && std::find(uuids.begin(), uuids.end(), gpu.uuid) == uuids.end())
          uuids.push_back(gpu.uuid);
  }
  return uuids;
}

// Whether one of its nodes drains now, and the earliest deadline of those nodes.
void FillEviction(const World& world, const Attempt& live, DesiredAttempt& desired) {
  if (live.eviction_requested_at == 0) return;
  for (const Member& member : live.members) {
    const Node& node = world.state.nodes.at(member.node);
    if (!node.draining) continue;
    desired.evict = true;
    if (node.drain_until != 0 && (desired.evict_by == 0 || node.drain_until < desired.evict_by))
      desired.evict_by = node.drain_until;
  }
}

// It saves and ends before the deadline, or is ended.
void FillResize(const Attempt& live, DesiredAttempt& desired) {
  if (!live.resize.is_pending()) return;
  desired.evict = true;
  const Millis by = live.resize.save_by;
  desired.evict_by = desired.evict_by == 0 ? by : std::min(by, desired.evict_by);
}

// The newest row of the attempt, where it has several ranks, whose checkpoint is committed.
uint64_t CompleteSeq(const World& world, const Owner& owner, const Attempt& live) {
  if (RanksOf(world, owner, live) == 1) return 0;
  const std::vector<Checkpoint>& all = FindRuns(world.state, owner)->checkpoints;
  return all.empty() || !all.back().IsOf(live) ? 0 : all.back().seq;
}

uint64_t ProfileSeq(const World& world, const AttemptId& attempt) {
  if (!world.index.elastic.contains(attempt.owner)) return 0;
  const JobProfile* known = FindProfile(world.state, attempt.owner);
  return known != nullptr && known->attempt == attempt ? known->seq : 0;
}

}  // namespace

std::vector<DesiredAttempt> DesiredFor(const World& world, NodeId node) {
  std::vector<DesiredAttempt> desired;
  auto index = world.index.nodes.find(node);
  if (index == world.index.nodes.end()) return desired;
  for (const Fence& fence : index->second.attempts) {
    const Owner& owner = fence.attempt.owner;
    const Attempt& live = *FindLive(world.state, fence.attempt);
    if (fence.rank >= RanksOf(world, owner, live)) continue;  // Reserved for rank 0.
    if (!live.IsWanted(fence.rank)) continue;
    const OwnerPolicy& policy = PolicyOf(owner);
    const bool stop = policy.is_stopping(world.state, owner);
    DesiredAttempt& wanted = desired.emplace_back(DesiredAttempt{
        fence, stop || live.FirstFailure() != nullptr || live.resize.forced || live.replaced});
    wanted.start_after = live.start_after;
    if (!policy.saves()) continue;
    wanted.complete_seq = CompleteSeq(world, owner, live);
    // Rank 0 saves and ends, which ends the others; ranks that report may have shards to save. The
    // ranks of an elastic attempt save together, so that one that was not asked would hold up all.
    const bool is_elastic = world.index.elastic.contains(owner);
    if (fence.rank != 0 && live.accepted[fence.rank] == 0 && !is_elastic) continue;
    wanted.suspend = live.suspending && !live.freeze.is_wanted();
    wanted.freeze = live.freeze.is_wanted() ? live.freeze.round : 0;
    if (fence.rank == 0) wanted.decided_seq = live.decided_seq;
    if (fence.rank == 0) wanted.profile_seq = ProfileSeq(world, fence.attempt);
    FillEviction(world, live, wanted);
    FillResize(live, wanted);
  }
  return desired;
}

LaunchSpec LaunchSpecFor(const World& world, const Fence& fence) {
  const Attempt* attempt = FindLive(world.state, fence.attempt);
  RT_CHECK(attempt != nullptr && fence.rank < attempt->members.size());
  LaunchSpec launch;
  launch.fence = fence;
  const Owner& owner = fence.attempt.owner;
  launch.world_size = RanksOf(world, owner, *attempt);
  launch.takes_profile = fence.rank == 0 && world.index.elastic.contains(owner);
  PolicyOf(owner).fill_launch(world, *attempt, launch);
  if (launch.world_size > 1 || launch.env.contains(kTorchrunId)) FillRank(world, *attempt, launch);
  launch.gpu_uuids = GpusFor(world, *attempt, fence.rank);
  return launch;
}

std::vector<LaunchSpec> BodiesFor(const World& world, const std::vector<DesiredAttempt>& desired,
                                  const std::set<Fence>& listed) {
  std::vector<LaunchSpec> bodies;
  for (const DesiredAttempt& wanted : desired)
    if (!wanted.stop && !listed.contains(wanted.fence))
      bodies.push_back(LaunchSpecFor(world, wanted.fence));
  return bodies;
}

}  // namespace rt
