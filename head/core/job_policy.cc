// Jobs as owners of attempts: a driver script, which neither reports nor saves.
#include "head/core/index.h"
#include "head/core/owner_policy.h"

namespace rt {
namespace {

const Job& JobOf(const State& state, const Owner& owner) { return state.jobs.at(owner.job()); }

const Runs* RunsOfJob(const State& state, const Owner& owner) {
  auto job = state.jobs.find(owner.job());
  return job == state.jobs.end() ? nullptr : &job->second.runs;
}

void EachJob(const State& state, const std::function<void(const Owner&)>& visit) {
  for (const auto& [id, job] : state.jobs) visit(Owner::Of(id));
}

bool IsOverNow(const State& state, const Owner& owner) {
  return JobOf(state, owner).end != JobEnd::kNone;
}

bool IsStopping(const State& state, const Owner& owner) {
  return JobOf(state, owner).stop_requested;
}

bool MayRun(const State& state, const Owner& owner) {
  const Job& job = JobOf(state, owner);
  return job.end == JobEnd::kNone && !job.stop_requested;
}

Millis CreatedAt(const State& state, const Owner& owner) {
  return JobOf(state, owner).created_at;
}

const std::string& UserOfJob(const State& state, const Owner& owner) {
  return JobOf(state, owner).owner;
}

const ResourceRequest& RequestOfJob(const World& world, const Owner& owner) {
  return world.index.jobs.at(owner.job()).spec.resources;
}

void ApplyPlaced(World& world, const event::AttemptPlaced& event, Millis at) {
  Job& job = world.state.jobs.at(event.attempt.owner.job());
  if (job.started_at == 0) job.started_at = at;
}

void ReindexJobs(World& world) {
  for (const auto& [id, job] : world.state.jobs) IndexJob(world, job);
  for (const auto& [id, job] : world.state.jobs) ReindexRuns(world, Owner::Of(id));
}

void FillJob(const World& world, const Attempt&, LaunchSpec& launch) {
  const JobSpec& spec = world.index.jobs.at(launch.fence.attempt.owner.job()).spec;
  launch.argv = spec.argv;
  launch.env = spec.env;
  launch.bundle = spec.bundle;
  launch.cwd = spec.cwd;
  launch.resources = spec.resources.bundles.at(launch.fence.rank);
  launch.name = spec.name;
  launch.preflight = spec.preflight.wanted;
  launch.preflight_min_bus_gbps = spec.preflight.min_bus_gbps;
}

}  // namespace

const OwnerPolicy kJobPolicy = {
    .kind = Owner::Kind::kJob,
    .runs = RunsOfJob,
    .each = EachJob,
    .is_over = IsOverNow,
    .is_stopping = IsStopping,
    .may_run = MayRun,
    .created_at = CreatedAt,
    .user = UserOfJob,
    .request = RequestOfJob,
    .apply_placed = ApplyPlaced,
    .reindex = ReindexJobs,
    .after_attempt = AfterJobAttempt,
    .fill_launch = FillJob,
};

}  // namespace rt
