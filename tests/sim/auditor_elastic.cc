// The auditor's part about what elastic jobs measure, and how policies share out capacity.
#include <algorithm>

#include "tests/sim/auditor.h"

namespace rt::sim {
namespace {

// Between two records of one job.
constexpr Millis kProfileEvery = 30'000;
constexpr double kRounding = 1e-9;

struct Use {
  double fixed = 0, all = 0;
  double surplus = 0;  // What those have beyond their minimum who may change.
};

Use UseOf(const SharedGroup& group) {
  Use use;
  for (const SharedJob& job : group.jobs) {
    use.all += job.ranks * job.units;
    if (job.fixed) use.fixed += job.ranks * job.units;
    else if (job.ranks > job.ranks_min) use.surplus += (job.ranks - job.ranks_min) * job.units;
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

void Auditor::On(const event::SizesAnswered& e) {
  Must(e.observed_through < record_->seq, "an answer has read only what was there");
  for (const SharedGroup& group : e.groups) {
    const Use use = UseOf(group);
    Must(use.all <= std::max(group.capacity, use.fixed) + kRounding,
         "shares are no more than the capacity");
    bool is_measured = false;
    for (const SharedJob& job : group.jobs) {
      const auto known = elastic_.classes.find(job.job_class);
      is_measured |= known != elastic_.classes.end() && known->second <= e.observed_through;
      if (job.fixed) {
        Must(job.ranks == job.held, "a size that is not to change stays");
        continue;
      }
      Must(job.ranks == 0 || (job.ranks >= job.ranks_min && job.ranks <= job.ranks_max),
           "a share is within its bounds");
      const double needs = job.ranks_min * job.units;
      Must(job.ranks > 0 || needs > group.capacity - use.all + use.surplus + kRounding,
           "nobody is below its minimum while others have more than theirs");
    }
    const bool learns = group.policy == "costate";
    Must(learns || group.policy == "equal", "a policy is known");
    Must(learns == is_measured || elastic_.has_forgotten,
         "a policy that needs measurements decides once there are some");
  }
}

}  // namespace rt::sim
