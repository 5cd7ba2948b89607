#include "head/core/elastic.h"

#include <algorithm>
#include <map>

#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/priorities.h"
#include "head/core/surplus.h"

namespace rt {
namespace {

constexpr double kHour_s = 3'600;
constexpr uint32_t kBackOffMax = 5;  // Doublings of the interval.

AttemptId IdOf(const Owner& owner, const Attempt& live) {
  return {owner, live.number, live.generation};
}

// Whether the policy may change the attempt's size now. It may not soon after the last change.
bool MayChange(const Core& core, const Owner& owner, const Attempt& live, Millis now) {
  if (live.resize.is_pending() || IsEndingElastic(core.world, owner, live) || live.is_backfilled())
    return false;
  const bool has_started =
      std::none_of(live.pids.begin(), live.pids.end(), [](uint64_t pid) { return pid == 0; });
  if (!has_started) return false;
  const Millis interval = core.soft.elastic_interval;
  if (live.generation > 1 && now < live.placed_at + interval) return false;
  const auto tried = core.soft.elastic_tries.find(owner);
  if (tried == core.soft.elastic_tries.end() || tried->second.attempt != IdOf(owner, live))
    return true;
  return now >= tried->second.at + (interval << std::min(1 + tried->second.fruitless, kBackOffMax));
}

// The attempt was asked for another size. An attempt that never saves is asked less and less often.
void NoteTry(Draft& draft, const AttemptId& attempt) {
  ElasticTry& last = draft.soft().elastic_tries[attempt.owner];
  last.fruitless = last.attempt == attempt ? last.fruitless + 1 : 0;
  last.attempt = attempt;
  last.at = draft.now;
}

// The capacity of the group in ranks of its smallest request (free, and held by its jobs), and how
// many such ranks the largest node has.
void Measure(const Core& core, Millis now, const Resources& smallest, bool by_gpu,
             ElasticQuestion::Group& group) {
  const size_t most = limits::kBundlesMax;
  group.capacity = static_cast<double>(CountFree(core, {.bundles = {smallest}}, now, most));
  int64_t largest = 1;
  for (const auto& [id, node] : core.world.state.nodes)
    if (node.ready && node.counts())
      largest = std::max(
          largest, ElasticUnits(node.inventory.resources, by_gpu) / ElasticUnits(smallest, by_gpu));
  group.ranks_per_node = static_cast<uint32_t>(std::min<int64_t>(largest, limits::kBundlesMax));
  for (const ElasticQuestion::Job& job : group.jobs)
    group.capacity += job.now.ranks * job.now.units;
}

// Adds to a group what the state does not say of it.
void Complete(const Core& core, Millis now, ElasticQuestion::Group& group) {
  const Resources* smallest = nullptr;
  for (ElasticQuestion::Job& job : group.jobs) {
    const Owner& owner = job.attempt.owner;
    job.now.is_fixed = !MayChange(core, owner, *FindRuns(core.world.state, owner)->live(), now);
    if (smallest == nullptr && job.now.units == 1) smallest = &RequestOf(core.world, owner).one();
  }
  Measure(core, now, *smallest, smallest->gpu > 0, group);
}

double ArrivalSeconds(const State& state, Millis now) {
  size_t arrived = 0;
  for (auto one = state.experiments.rbegin(); one != state.experiments.rend(); ++one) {
    if (one->second.created_at < now - static_cast<Millis>(kHour_s) * 1'000) break;
    ++arrived;
  }
  return arrived == 0 ? 0 : kHour_s / static_cast<double>(arrived);
}

struct Waiter {
  QueueOrder order;
  Owner owner;
  const ResourceRequest* wanted = nullptr;
};

// Owners that wait, in the order in which they are to run: of those that ask for the same, at most
// `of_each`, and at most kPreemptionsPerRound together.
std::vector<Waiter> WaitingInOrder(const World& world, size_t of_each) {
  std::vector<Waiter> waiting;
  for (const auto& [wanted, queue] : world.index.ready) {
    size_t most = of_each;
    for (const auto& [order, owner] : queue.by_order) {
      if (most-- == 0) break;
      waiting.push_back({order, owner, &wanted});
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const Waiter& a, const Waiter& b) { return a.order < b.order; });
  if (waiting.size() > limits::kPreemptionsPerRound) waiting.resize(limits::kPreemptionsPerRound);
  return waiting;
}

// Whether an owner waits who could run if elastic attempts did not grow.
bool IsAwaited(Draft& draft) {
  if (draft.index().ready.empty()) return false;
  const Surplus all(draft);
  for (const Waiter& one : WaitingInOrder(draft.core.world, 1)) {
    Surplus surplus = all;
    const std::set<NodeId> avoided = AvoidedBy(draft.core.world, one.owner);
    if (surplus.Find(*one.wanted, avoided, -one.order.behind).has_value()) return true;
  }
  return false;
}

// Asks the attempt for the size that the policy gives it. It does not grow while others wait.
void TryResize(Draft& draft, const SharedJob& job, bool is_awaited) {
  const AttemptId& attempt = job.attempt;
  const Attempt* live = FindLive(draft.state(), attempt);
  if (live == nullptr || !draft.index().elastic.contains(attempt.owner)) return;
  const ResourceRequest& request = RequestOf(draft.core.world, attempt.owner);
  const uint32_t ranks = job.ranks;
  if (ranks < request.ranks_min || ranks > request.ranks_max || ranks == live->members.size())
    return;
  if (!MayChange(draft.core, attempt.owner, *live, draft.now)) return;
  if (ranks > live->members.size() && is_awaited) return;
  // A growth may find less than the policy counted on, because capacity is split over nodes.
  for (uint32_t size = ranks; size != live->members.size(); --size) {
    const bool is_done = OnResizeRun(draft, {.owner = attempt.owner, .ranks = size}).ok();
    if (is_done) NoteTry(draft, attempt);
    if (is_done || size < live->members.size()) return;
  }
}

// All jobs of the answer, those of the highest priority first: what is free now may be less than
// what the answer gives them together.
std::vector<const SharedJob*> ByPriority(const event::SizesAnswered& answer) {
  std::vector<const SharedJob*> jobs;
  for (const SharedGroup& group : answer.groups)
    for (const SharedJob& job : group.jobs) jobs.push_back(&job);
  std::stable_sort(jobs.begin(), jobs.end(), [](const SharedJob* a, const SharedJob* b) {
    return a->priority > b->priority;
  });
  return jobs;
}

// Keeps the answer for `rt trial why`.
void NoteShares(Draft& draft, const event::SizesAnswered& answer) {
  std::map<Owner, ElasticShare>& shares = draft.soft().elastic_shares;
  shares.clear();
  for (const SharedGroup& group : answer.groups)
    for (const SharedJob& job : group.jobs)
      shares[job.attempt.owner] = {job.attempt, group.policy, job.ranks, job.speed_up,
                                   job.speed_up_more};
}

}  // namespace

std::optional<ElasticQuestion> ElasticDesk::Ask(const Core& core, Millis now) {
  const World& world = core.world;
  if (world.index.elastic.empty()) return std::nullopt;
  if (now < asked_at_ + std::min(limits::kElasticAskEvery, core.soft.elastic_interval))
    return std::nullopt;
  if (is_under_way_ && now < asked_at_ + limits::kLaneOverdueAfter) return std::nullopt;
  if (now < looked_at_ + limits::kElasticLookEvery) return std::nullopt;
  looked_at_ = now;
  const std::vector<Owner> owners = ElasticOwners(world);
  std::vector<AttemptId> about;
  for (const Owner& owner : owners) {
    const Attempt& live = *FindRuns(world.state, owner)->live();
    if (MayChange(core, owner, live, now)) about.push_back(IdOf(owner, live));
  }
  if (about.empty()) return std::nullopt;
  const bool has_changed = about != asked_about_ ||
                           world.index.capacity_version != asked_version_ ||
                           world.index.profiled_attempts != asked_profiles_;
  if (!has_changed && now < asked_at_ + core.soft.elastic_interval) return std::nullopt;
  ElasticQuestion question = QuestionOf({.observed_through = world.state.seq,
                                         .arrival_s = ArrivalSeconds(world.state, now),
                                         .groups = SharedIn(world)},
                                        RecallProfiles(world.state));
  question.epoch = world.state.epoch;
  question.asked_at = std::max(now, world.state.time);
  for (ElasticQuestion::Group& group : question.groups) Complete(core, now, group);
  asked_about_ = std::move(about);
  asked_version_ = world.index.capacity_version;
  asked_profiles_ = world.index.profiled_attempts;
  asked_at_ = now;
  is_under_way_ = true;
  return question;
}

void ElasticDesk::Take(const input::ElasticAnswered&) { is_under_way_ = false; }

absl::Status OnElasticAnswered(Draft& draft, const input::ElasticAnswered& input) {
  const State& state = draft.state();
  const event::SizesAnswered& answer = input.answer;
  if (input.epoch != state.epoch || answer.observed_through > state.seq) return absl::OkStatus();
  // The answer is too old: the question has been asked again.
  if (draft.now > input.asked_at + limits::kLaneOverdueAfter) return absl::OkStatus();
  if (answer.groups.empty()) return absl::OkStatus();
  std::erase_if(draft.soft().elastic_tries,
                [&](const auto& one) { return !draft.index().elastic.contains(one.first); });
  NoteShares(draft, answer);
  const uint64_t before = state.seq;
  // Attempts that shrink come first, because others may grow by their capacity later.
  for (const bool grows : {false, true}) {
    std::optional<bool> is_awaited;
    for (const SharedJob* job : ByPriority(answer)) {
      const Attempt* live = FindLive(draft.state(), job->attempt);
      const bool may_change = live != nullptr && !job->fixed && job->ranks != live->members.size();
      if (!may_change || (job->ranks > live->members.size()) != grows) continue;
      // Computed once: ranks that are added here can be taken back for owners that wait.
      if (grows && !is_awaited.has_value()) is_awaited = IsAwaited(draft);
      TryResize(draft, *job, is_awaited.value_or(false));
    }
  }
  if (state.seq != before) draft.Emit(ChangesOf(answer));
  return absl::OkStatus();
}

bool ShrinkTo(Draft& draft, const Owner& owner, uint32_t ranks) {
  const AttemptId attempt = IdOf(owner, *FindRuns(draft.state(), owner)->live());
  if (!OnResizeRun(draft, {.owner = owner, .ranks = ranks}).ok()) return false;
  NoteTry(draft, attempt);
  return true;
}

void ShrinkForWaiting(Draft& draft) {
  if (draft.index().elastic.empty() || draft.index().ready.empty()) return;
  Surplus surplus(draft);
  for (const Waiter& one : WaitingInOrder(draft.core.world, limits::kPreemptionsPerRound))
    surplus.Find(*one.wanted, AvoidedBy(draft.core.world, one.owner), -one.order.behind);
  for (const auto& [owner, size] : surplus.TakeShrunk()) ShrinkTo(draft, owner, size);
}

}  // namespace rt
