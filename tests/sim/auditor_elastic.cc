// The auditor's part about what elastic jobs measure, and how policies share out capacity.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// Between two records of one job.
constexpr Millis kProfileEvery = 30'000;
constexpr double kRounding = 1e-9;

// An answer reads what was no longer ago.
constexpr Millis kAnswerAge = 60'000;

struct Use {
  double fixed = 0, all = 0;
  double surplus = 0;  // What those have beyond their minimum who may change.
};

// Of all shares, or of those of a lower priority.
Use UseOf(const std::vector<ElasticShareBook>& shares, int64_t below = INT64_MAX) {
  Use use;
  for (const ElasticShareBook& one : shares) {
    if (one.run.priority >= below) continue;
    use.all += one.ranks * one.units;
    if (one.fixed) use.fixed += one.ranks * one.units;
    else if (one.ranks > one.run.least) use.surplus += (one.ranks - one.run.least) * one.units;
  }
  return use;
}

}  // namespace

void Auditor::On(const event::ProfileRecorded& e) {
  const OwnerBook& owner = LiveOf(e.attempt);
  Must(owner.asks.ranks_max != 0, "only elastic attempts are measured");
  const bool is_known = elastic_.profiles.contains(e.attempt.owner);
  ProfileBook& book = elastic_.profiles[e.attempt.owner];
  Must(book.attempt != e.attempt || e.seq > book.seq, "each measurement is recorded once");
  Must(!is_known || at_ >= book.at + kProfileEvery, "one record of a job in half a minute");
  Must(is_known || e.whole, "the first record says everything");
  book.attempt = e.attempt;
  book.seq = e.seq;
  book.at = at_;
  if (e.whole) book.counts.clear();
  for (const StepPoint& point : e.profile.points)
    book.counts[{point.nodes, point.ranks, point.local_batch, point.accumulation}] = point.count;
  uint64_t recorded = 0, trained = 0;
  for (const auto& [shape, count] : book.counts) recorded += count;
  for (const auto& [fence, run] : truth_->runs)
    if (fence.attempt.owner == e.attempt.owner && fence.rank == 0) trained += run.rows.size();
  Must(recorded <= trained, "no step counts twice");
  elastic_.classes.emplace(e.job_class, record_->seq);
  for (const Owner& owner_forgotten : e.forgotten) {
    Must(owner_forgotten != e.attempt.owner && elastic_.profiles.erase(owner_forgotten) == 1,
         "only a profile that is there is forgotten");
    Must(OwnerOf(owner_forgotten).over, "only a profile of what is over is forgotten");
    elastic_.has_forgotten = true;
  }
}

std::vector<ElasticRun> Auditor::ElasticRuns() const {
  std::vector<ElasticRun> runs;
  for (const auto& [id, experiment] : experiments_) {
    for (uint32_t number = 0; number < experiment.trials.size(); ++number) {
      const OwnerBook& owner = experiment.trials[number].runs;
      const AttemptId attempt{Owner::Of(TrialId{id, number}), owner.number, owner.generation};
      // A trial may ask for itself.
      const bool is_elastic = owner.live && owner.asks.ranks_max != 0;
      if (!is_elastic || backfill_before_.contains(attempt)) continue;
      const Resources& one = owner.asks.bundles.front();
      runs.push_back(
          {.attempt = attempt,
           .held = static_cast<uint32_t>(std::max(owner.members.size(), owner.next_members.size())),
           .least = owner.asks.ranks_asked,
           .most = owner.asks.ranks_max,
           .unit = one.gpu > 0 ? one.gpu : one.cpu,
           .by_gpu = one.gpu > 0,
           .priority = experiment.spec.priority});
    }
  }
  return runs;
}

// Somebody waits who may get capacity of this priority.
bool Auditor::AwaitsFrom(int64_t priority) const {
  const bool has_waiting_job = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& one) {
    return !one.second.over && Waits(one.second.runs);
  });
  const bool has_waiting_executor =
      std::any_of(open_executors_.begin(), open_executors_.end(),
                  [&](ExecutorId id) { return Waits(executors_.at(id).runs); });
  if (priority <= 0 && (has_waiting_job || has_waiting_executor)) return true;
  return std::any_of(experiments_.begin(), experiments_.end(), [&](const auto& one) {
    const ExperimentBook& experiment = one.second;
    return experiment.spec.priority >= priority &&
           std::any_of(experiment.trials.begin(), experiment.trials.end(),
                       [](const TrialBook& trial) { return Waits(trial.runs); });
  });
}

void Auditor::NoteElastic() {
  std::vector<ElasticRun> runs = ElasticRuns();
  auto& seen = elastic_.seen;
  if (seen.empty() ? runs.empty() : seen.rbegin()->second.second == runs) return;
  seen[seq_] = {at_, std::move(runs)};
  while (seen.size() > 1 && std::next(seen.begin())->second.first + kAnswerAge < at_)
    seen.erase(seen.begin());
}

// What each attempt of the kind was given, by what ran when the policy was asked.
std::vector<ElasticShareBook> Auditor::SharesOf(const SharedGroup& group, uint64_t through) const {
  const auto later = elastic_.seen.upper_bound(through);
  Must(later != elastic_.seen.begin() && !group.jobs.empty(), "an answer is about what ran");
  const std::vector<ElasticRun>& seen = std::prev(later)->second.second;
  const auto first = std::find_if(seen.begin(), seen.end(), [&](const ElasticRun& run) {
    return run.attempt == group.jobs.front().attempt;
  });
  Must(first != seen.end(), "an answer is about attempts that ran");
  std::vector<ElasticShareBook> shares;
  int64_t smallest = INT64_MAX;
  auto changed = group.jobs.begin();
  for (const ElasticRun& run : seen) {
    if (run.by_gpu != first->by_gpu) continue;
    const auto place = static_cast<uint32_t>(shares.size());
    const bool is_fixed =
        std::find(group.fixed.begin(), group.fixed.end(), place) != group.fixed.end();
    shares.push_back({.run = run, .fixed = is_fixed, .ranks = run.held});
    smallest = std::min(smallest, run.unit);
    if (changed == group.jobs.end() || changed->attempt != run.attempt) continue;
    Must(changed->held == run.held && changed->ranks_min == run.least &&
             changed->ranks_max == run.most && changed->priority == run.priority,
         "a policy was asked about what was there");
    Must(!is_fixed, "a size that is not to change stays");
    Must(changed->ranks != run.held, "an answer says what it changes, and no more");
    shares.back().ranks = (changed++)->ranks;
  }
  Must(changed == group.jobs.end() && group.asked == shares.size(),
       "a policy is asked about all elastic attempts of one kind");
  for (ElasticShareBook& one : shares)
    one.units = static_cast<double>(one.run.unit) / static_cast<double>(smallest);
  return shares;
}

void Auditor::CheckShares(const SharedGroup& group,
                          const std::vector<ElasticShareBook>& shares) const {
  const Use use = UseOf(shares);
  const double unused = group.capacity - use.all;
  Must(use.all <= std::max(group.capacity, use.fixed) + kRounding,
       "shares are no more than the capacity");
  for (const ElasticShareBook& one : shares) {
    if (one.fixed) continue;
    Must(one.ranks == 0 || (one.ranks >= one.run.least && one.ranks <= one.run.most),
         "a share is within its bounds");
    const double needs = one.run.least * one.units;
    Must(one.ranks > 0 || needs > unused + use.surplus + kRounding,
         "nobody is below its minimum while others have more than theirs");
    if (group.policy != "equal" || one.ranks == 0 || one.ranks == one.run.most) continue;
    Must(one.units > unused + UseOf(shares, one.run.priority).surplus + kRounding,
         "a higher priority comes first beyond the minima");
  }
}

void Auditor::On(const event::SizesAnswered& e) {
  Must(e.observed_through < record_->seq, "an answer has read only what was there");
  Must(!e.groups.empty(), "an answer that changes nothing is not recorded");
  for (const SharedGroup& group : e.groups) {
    const std::vector<ElasticShareBook> shares = SharesOf(group, e.observed_through);
    CheckShares(group, shares);
    for (const SharedJob& job : group.jobs) {
      const auto shrunk = elastic_.unexplained.find(job.attempt);
      if (shrunk != elastic_.unexplained.end() && shrunk->second == job.ranks)
        elastic_.unexplained.erase(shrunk);
    }
    const bool learns = group.policy == "costate";
    Must(learns || group.policy == "equal", "a policy is known");
    const auto is_measured = [&](const std::string& name) {
      const auto known = elastic_.classes.find(name);
      return known != elastic_.classes.end() && known->second <= e.observed_through;
    };
    const bool changes_measured =
        std::any_of(group.jobs.begin(), group.jobs.end(),
                    [&](const SharedJob& job) { return is_measured(job.job_class); });
    const bool is_any_measured =
        std::any_of(elastic_.classes.begin(), elastic_.classes.end(),
                    [&](const auto& one) { return is_measured(one.first); });
    Must((learns ? is_any_measured : !changes_measured) || elastic_.has_forgotten,
         "a policy that needs measurements decides once there are some");
  }
}

}  // namespace rt::sim
