// What a policy is asked about, as far as the state says it, and what is journalled of its answer.
#include <algorithm>

#include "head/core/elastic.h"
#include "head/core/owner_policy.h"
#include "head/core/priorities.h"

namespace rt {
namespace {

constexpr double kRestartGuess_s = 10;
constexpr double kRestartWeight = 0.5;  // Of the newest measurement.

SharedJob SharedJobOf(const World& world, const Owner& owner) {
  const Runs& runs = *FindRuns(world.state, owner);
  const Attempt& live = *runs.live();
  const ResourceRequest& request = RequestOf(world, owner);
  const size_t pending = live.resize.is_pending() ? live.resize.members.size() : 0;
  return {.attempt = {owner, live.number, live.generation},
          .job_class = JobClassOf(world, owner),
          .held = static_cast<uint32_t>(std::max(live.members.size(), pending)),
          .ranks_min = request.ranks_min,
          .ranks_max = request.ranks_max,
          .restart_s = RestartSeconds(runs),
          .priority = PriorityOf(world, owner)};
}

bool IsChanged(const SharedJob& job) { return job.ranks != job.held; }

}  // namespace

int64_t ElasticUnits(const Resources& resources, bool by_gpu) {
  return std::max<int64_t>(by_gpu ? resources.gpu : resources.cpu, 1);
}

double RestartSeconds(const Runs& runs) {
  double seconds = 0;
  for (size_t i = 1; i < runs.attempts.size(); ++i) {
    const Attempt& before = runs.attempts[i - 1];
    const Attempt& after = runs.attempts[i];
    const bool is_resize = before.number == after.number && before.resize.requested_at > 0;
    if (!is_resize || after.started_at == 0) continue;
    const double took = static_cast<double>(after.started_at - before.resize.requested_at) / 1'000;
    seconds = seconds == 0 ? took : seconds + kRestartWeight * (took - seconds);
  }
  return seconds > 0 ? seconds : kRestartGuess_s;
}

std::vector<Owner> ElasticOwners(const World& world) {
  std::vector<Owner> owners;
  for (const Owner& owner : world.index.elastic)
    if (!FindRuns(world.state, owner)->live()->is_backfilled()) owners.push_back(owner);
  return owners;
}

std::vector<SharedGroup> SharedIn(const World& world) {
  const std::vector<Owner> owners = ElasticOwners(world);
  std::vector<SharedGroup> groups;
  for (const bool by_gpu : {false, true}) {
    SharedGroup group;
    int64_t smallest = INT64_MAX;
    for (const Owner& owner : owners) {
      const Resources& one = RequestOf(world, owner).one();
      if ((one.gpu > 0) != by_gpu) continue;
      smallest = std::min(smallest, ElasticUnits(one, by_gpu));
      group.jobs.push_back(SharedJobOf(world, owner));
    }
    for (SharedJob& job : group.jobs) {
      const Resources& one = RequestOf(world, job.attempt.owner).one();
      job.units = static_cast<double>(ElasticUnits(one, by_gpu)) / static_cast<double>(smallest);
    }
    if (!group.jobs.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

event::SizesAnswered ChangesOf(const event::SizesAnswered& answer) {
  event::SizesAnswered changes = answer;
  for (SharedGroup& group : changes.groups) {
    group.asked = static_cast<uint32_t>(group.jobs.size());
    for (uint32_t i = 0; i < group.asked; ++i)
      if (group.jobs[i].fixed) group.fixed.push_back(i);
    std::erase_if(group.jobs, [](const SharedJob& job) { return !IsChanged(job); });
  }
  std::erase_if(changes.groups, [](const SharedGroup& group) { return group.jobs.empty(); });
  return changes;
}

event::SizesAnswered WholeOf(const event::SizesAnswered& answer,
                             const std::vector<SharedGroup>& asked_about) {
  event::SizesAnswered whole = answer;
  for (SharedGroup& group : whole.groups) {
    const auto has_first = [&](const SharedGroup& known) {
      return !group.jobs.empty() &&
             std::any_of(known.jobs.begin(), known.jobs.end(), [&](const SharedJob& job) {
               return job.attempt == group.jobs.front().attempt;
             });
    };
    const auto known = std::find_if(asked_about.begin(), asked_about.end(), has_first);
    if (known == asked_about.end() || known->jobs.size() != group.asked) {
      whole.groups.clear();
      return whole;
    }
    group.jobs = known->jobs;
    for (uint32_t place : group.fixed)
      if (place < group.asked) group.jobs[place].fixed = true;
    group.asked = 0;
    group.fixed.clear();
  }
  return whole;
}

}  // namespace rt
