// Executors as owners of attempts: processes that run a driver's tasks, and do not report or save.
#include "head/core/executor_index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

const Executor& ExecutorOf(const State& state, const Owner& owner) {
  return state.executors.at(owner.executor());
}

const Runs* RunsOfExecutor(const State& state, const Owner& owner) {
  const auto found = state.executors.find(owner.executor());
  return found == state.executors.end() ? nullptr : &found->second.runs;
}

void EachExecutor(const State& state, const std::function<void(const Owner&)>& visit) {
  for (const auto& [id, executor] : state.executors) visit(Owner::Of(id));
}

bool IsOverNow(const State& state, const Owner& owner) {
  return ExecutorOf(state, owner).is_over();
}

bool IsStopping(const State& state, const Owner& owner) {
  return ExecutorOf(state, owner).release_requested;
}

bool MayRun(const State& state, const Owner& owner) {
  const Executor& executor = ExecutorOf(state, owner);
  return !executor.is_over() && !executor.release_requested && executor.restart_at == 0;
}

Millis CreatedAt(const State& state, const Owner& owner) {
  return ExecutorOf(state, owner).created_at;
}

const std::string& UserOfExecutor(const State& state, const Owner& owner) {
  return ExecutorOf(state, owner).owner;
}

// One that has ended asks for nothing.
const ResourceRequest& RequestOfExecutor(const World& world, const Owner& owner) {
  static const ResourceRequest kNothing;
  const auto found = world.index.executors.specs.find(owner.executor());
  return found == world.index.executors.specs.end() ? kNothing : found->second.program.resources;
}

void ApplyPlaced(World& world, const event::AttemptPlaced& event, Millis at) {
  Executor& executor = world.state.executors.at(event.attempt.owner.executor());
  if (executor.started_at == 0) executor.started_at = at;
}

void FillExecutor(const World& world, const Attempt&, LaunchSpec& launch) {
  const ExecutorSpec& spec = world.index.executors.specs.at(launch.fence.attempt.owner.executor());
  launch.argv = spec.program.argv;
  launch.env = spec.program.env;
  launch.bundle = spec.program.bundle;
  launch.cwd = spec.program.cwd;
  launch.inputs = spec.inputs;
  launch.params = spec.params;
  launch.resources = spec.program.resources.bundles.at(launch.fence.rank);
  launch.name = spec.program.name;
}

}  // namespace

const OwnerPolicy kExecutorPolicy = {
    .kind = Owner::Kind::kExecutor,
    .runs = RunsOfExecutor,
    .each = EachExecutor,
    .is_over = IsOverNow,
    .is_stopping = IsStopping,
    .may_run = MayRun,
    .created_at = CreatedAt,
    .user = UserOfExecutor,
    .request = RequestOfExecutor,
    .apply_placed = ApplyPlaced,
    .reindex = ReindexExecutors,
    .after_attempt = AfterExecutorAttempt,
    .fill_launch = FillExecutor,
};

}  // namespace rt
