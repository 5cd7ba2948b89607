#include "head/core/elastic.h"

#include <algorithm>
#include <map>

#include "common/base/limits.h"
#include "common/base/limits_elastic.h"
#include "head/core/draft.h"
#include "head/core/owner_policy.h"
#include "head/core/places.h"
#include "head/core/priorities.h"

namespace rt {
namespace {

constexpr double kRestartGuess_s = 10;
constexpr double kRestartWeight = 0.5;  // Of the newest measurement.
constexpr double kHour_s = 3'600;
constexpr uint32_t kBackOffMax = 5;  // Doublings of the interval.

AttemptId IdOf(const Owner& owner, const Attempt& live) {
  return {owner, live.number, live.generation};
}

bool IsEnding(const World& world, const Owner& owner, const Attempt& live) {
  return live.suspending || !live.exits.empty() || live.resize.forced || live.replaced ||
         PolicyOf(owner).is_stopping(world.state, owner);
}

// Whether the policy may change the attempt's size now. It may not soon after the last change.
bool MayChange(const Core& core, const Owner& owner, const Attempt& live, Millis now) {
  if (live.resize.is_pending() || IsEnding(core.world, owner, live) || live.is_backfilled())
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

// Every elastic owner that holds capacity.
std::vector<Owner> ElasticOwners(const World& world) {
  std::vector<Owner> owners;
  for (const Owner& owner : world.index.elastic)
    if (!FindRuns(world.state, owner)->live()->is_backfilled()) owners.push_back(owner);
  return owners;
}

int64_t UnitsOf(const Resources& bundle, bool by_gpu) {
  return std::max<int64_t>(by_gpu ? bundle.gpu : bundle.cpu, 1);
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
      largest =
          std::max(largest, UnitsOf(node.inventory.resources, by_gpu) / UnitsOf(smallest, by_gpu));
  group.ranks_per_node = static_cast<uint32_t>(std::min<int64_t>(largest, limits::kBundlesMax));
  for (const ElasticQuestion::Job& job : group.jobs)
    group.capacity += job.now.ranks * job.now.units;
}

ElasticQuestion::Job JobOf(const Core& core, const Owner& owner, Millis now) {
  const Runs& runs = *FindRuns(core.world.state, owner);
  const Attempt& live = *runs.live();
  const ResourceRequest& request = RequestOf(core.world, owner);
  const size_t pending = live.resize.is_pending() ? live.resize.members.size() : 0;
  ElasticQuestion::Job job{.attempt = IdOf(owner, live),
                           .job_class = JobClassOf(core.world, owner)};
  job.now.ranks = static_cast<uint32_t>(std::max(live.members.size(), pending));
  job.now.ranks_min = request.ranks_min;
  job.now.ranks_max = request.ranks_max;
  job.now.restart_s = RestartSeconds(runs);
  job.now.is_fixed = !MayChange(core, owner, live, now);
  return job;
}

void AddGroup(const Core& core, const std::vector<Owner>& owners, bool by_gpu, Millis now,
              ElasticQuestion& question) {
  ElasticQuestion::Group group;
  const Resources* smallest = nullptr;
  for (const Owner& owner : owners) {
    const Resources& one = RequestOf(core.world, owner).one();
    if ((one.gpu > 0) != by_gpu) continue;
    if (smallest == nullptr || UnitsOf(one, by_gpu) < UnitsOf(*smallest, by_gpu)) smallest = &one;
    group.jobs.push_back(JobOf(core, owner, now));
  }
  if (smallest == nullptr) return;
  for (ElasticQuestion::Job& job : group.jobs) {
    const Resources& one = RequestOf(core.world, job.attempt.owner).one();
    job.now.units =
        static_cast<double>(UnitsOf(one, by_gpu)) / static_cast<double>(UnitsOf(*smallest, by_gpu));
  }
  Measure(core, now, *smallest, by_gpu, group);
  question.groups.push_back(std::move(group));
}

double ArrivalSeconds(const State& state, Millis now) {
  size_t arrived = 0;
  for (auto one = state.experiments.rbegin(); one != state.experiments.rend(); ++one) {
    if (one->second.created_at < now - static_cast<Millis>(kHour_s) * 1'000) break;
    ++arrived;
  }
  return arrived == 0 ? 0 : kHour_s / static_cast<double>(arrived);
}

// The ranks that elastic attempts have beyond their minimum, as capacity for owners that wait.
class Surplus {
 public:
  explicit Surplus(Draft& draft)
      : draft_(draft), capacities_(CapacitiesNow(draft.core, draft.now)) {
    const World& world = draft.core.world;
    for (const Owner& owner : ElasticOwners(world)) {
      const Attempt& live = *FindRuns(world.state, owner)->live();
      const bool shrinks = live.resize.is_pending() && !live.is_growing();
      if (shrinks) {
        Return(owner, live, live.resize.members.size());  // On its way already.
      } else if (!IsEnding(world, owner, live)) {
        sizes_.emplace_back(owner, std::max(live.members.size(), live.resize.members.size()));
      }
    }
  }

  // Takes the request's capacity from what is free or will be. False: it does not fit.
  bool Take(const ResourceRequest& wanted, const std::set<NodeId>& avoided) {
    return PutInto(capacities_, wanted, avoided).has_value();
  }

  // Shrinks attempts of at most this priority, those with the largest surplus first, until the
  // request fits. False: it cannot fit, and nothing was changed.
  bool ShrinkFor(const ResourceRequest& wanted, const std::set<NodeId>& avoided, int priority) {
    Surplus other = *this;
    std::set<Owner> shrunk;
    while (!other.Take(wanted, avoided)) {
      const auto next = other.Largest(priority);
      if (next == other.sizes_.end()) return false;
      const Attempt& live = *FindRuns(draft_.state(), next->first)->live();
      if (next->second > live.members.size()) {  // A growth under way is given up first.
        ReturnCapacity(other.capacities_, RequestOf(draft_.core.world, next->first), live.Claims());
        next->second = live.members.size();
      } else {
        other.Return(next->first, live, --next->second);
      }
      shrunk.insert(next->first);
    }
    capacities_ = other.capacities_;
    sizes_ = other.sizes_;
    returned_ = other.returned_;
    for (const auto& [owner, size] : sizes_)
      if (shrunk.contains(owner)) wanted_[owner] = static_cast<uint32_t>(size);
    return true;
  }

  const std::map<Owner, uint32_t>& wanted() const { return wanted_; }

 private:
  using Sizes = std::vector<std::pair<Owner, size_t>>;

  // The attempt with the most ranks beyond its minimum; of several, the one that arrived last.
  Sizes::iterator Largest(int priority) {
    auto best = sizes_.end();
    size_t most = 1;
    for (auto one = sizes_.begin(); one != sizes_.end(); ++one) {
      const size_t least = RequestOf(draft_.core.world, one->first).ranks_min;
      const bool may = PriorityOf(draft_.core.world, one->first) <= priority;
      if (!may || one->second < least + most) continue;
      most = one->second - least;
      best = one;
    }
    return best;
  }

  // Counts the capacity of the members from `size` on as free.
  void Return(const Owner& owner, const Attempt& live, size_t size) {
    if (size >= live.members.size()) return;
    const size_t until = returned_.contains(owner) ? returned_.at(owner) : live.members.size();
    const std::vector<Member> freed(live.members.begin() + static_cast<std::ptrdiff_t>(size),
                                    live.members.begin() + static_cast<std::ptrdiff_t>(until));
    ReturnCapacity(capacities_, RequestOf(draft_.core.world, owner), freed);
    returned_[owner] = size;
  }

  Draft& draft_;
  std::vector<FreeCapacity> capacities_;
  Sizes sizes_;                       // That may shrink.
  std::map<Owner, size_t> returned_;  // Members from here on are counted as free.
  std::map<Owner, uint32_t> wanted_;
};

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
    if (surplus.Take(*one.wanted, avoided)) return true;
    if (surplus.ShrinkFor(*one.wanted, avoided, -one.order.behind)) return true;
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
  ElasticQuestion question{.epoch = world.state.epoch,
                           .observed_through = world.state.seq,
                           .arrival_s = ArrivalSeconds(world.state, now),
                           .memory = RecallProfiles(world.state)};
  question.asked_at = std::max(now, world.state.time);
  AddGroup(core, owners, false, now, question);
  AddGroup(core, owners, true, now, question);
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
    for (const SharedGroup& group : answer.groups)
      for (const SharedJob& job : group.jobs) {
        const Attempt* live = FindLive(draft.state(), job.attempt);
        const bool may_change = live != nullptr && !job.fixed && job.ranks != live->members.size();
        if (!may_change || (job.ranks > live->members.size()) != grows) continue;
        // Computed once: ranks that are added here can be taken back for owners that wait.
        if (grows && !is_awaited.has_value()) is_awaited = IsAwaited(draft);
        TryResize(draft, job, is_awaited.value_or(false));
      }
  }
  if (state.seq != before) draft.Emit(answer);
  return absl::OkStatus();
}

void ShrinkForWaiting(Draft& draft) {
  if (draft.index().elastic.empty() || draft.index().ready.empty()) return;
  Surplus surplus(draft);
  for (const Waiter& one : WaitingInOrder(draft.core.world, limits::kPreemptionsPerRound)) {
    const std::set<NodeId> avoided = AvoidedBy(draft.core.world, one.owner);
    if (!surplus.Take(*one.wanted, avoided))
      surplus.ShrinkFor(*one.wanted, avoided, -one.order.behind);
  }
  for (const auto& [owner, size] : surplus.wanted()) {
    const AttemptId attempt = IdOf(owner, *FindRuns(draft.state(), owner)->live());
    if (OnResizeRun(draft, {.owner = owner, .ranks = size}).ok()) NoteTry(draft, attempt);
  }
}

}  // namespace rt
