// Asynchronous successive halving, the promotion variant (Li et al. 2020, algorithm 2). A trial is
// paused at each rung, unless it is among the best 1 / reduction_factor of the trials that were
// recorded there; a paused trial is resumed from its checkpoint as soon as it is among them. Pure.
//
// Two rules are not from the paper. A trial that has no checkpoint, in a search whose trials have
// proved not to save, is decided by the stopping variant (asha.h). And when nothing else of a
// search can run, the best trial of the highest rung is trained to its end if no trial was.
#pragma once

#include "common/decide/asha.h"

namespace rt {

const Scheduler& AshaPromotion();

// The base of asha_promotion and PASHA (pasha.h): trials are paused at rungs, and promoted.
class PromotionScheduler : public RungScheduler {
 public:
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double value) const override;
  bool reviews_trials() const override { return true; }
  ReviewVerdict Review(const ExperimentSpec& spec, const SearchReview& review) const override;

 protected:
  // No trial is promoted from this milestone on, for now; nullopt: from everywhere.
  virtual std::optional<double> Ceiling(const ExperimentSpec&, const SearchReview&,
                                        uint32_t /*bracket*/) const {
    return std::nullopt;
  }
  // The highest rung that it has reached, once.
  std::optional<double> MilestoneAt(const ScheduledTrial& trial, double t) const override {
    return NewestMilestone(trial, t);
  }
  // At the end of the search the best one continues in any case.
  double ContinuingOf(double trials, double factor) const override;
};

// Whether a trial with `value` is among the best floor(n / factor) of the n trials at a rung: the
// `recorded` ones before it, of which `values` (ascending) are without those that were NaN, and
// itself. Of equal values the earlier one is better. NaN is the worst value.
bool IsPromoted(double factor, Mode mode, const std::vector<double>& values, uint64_t recorded,
                double value);
// Those best floor(n / factor) trials of a rung, the best first.
std::vector<uint32_t> PromotedOf(double factor, Mode mode, const std::vector<RungMember>& members);

}  // namespace rt
