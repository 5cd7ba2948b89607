// Asynchronous successive halving, the stopping variant (Li et al. 2020; decisions as Ray's
// AsyncHyperBandScheduler). Rungs come from repeated multiplication, never logarithms, so they are
// the same on every machine. Pure: the head keeps the recorded values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "common/decide/milestones.h"
#include "common/decide/scheduler.h"

namespace rt {

const Scheduler& Asha();

// The options of ASHA, as its table declares them.
struct AshaOptions {
  std::string time_attr = "training_iteration";
  RungLadder ladder;
  int brackets = 1;
  bool stop_last_trials = true;
  bool rank_check = false;

  static AshaOptions From(const AlgorithmSpec& spec);
};

// What ASHA's variants have in common: brackets, rungs, the end at max_t and the plan.
class RungScheduler : public Scheduler {
 public:
  uint32_t BracketOf(const ExperimentSpec& spec, uint64_t seed, uint64_t number) const override;
  uint32_t BracketCount(const ExperimentSpec& spec) const override;
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t bracket) const override;
  RowVerdict OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                   const RowView& row) const override;
  SchedulePlan PlanOf(const ExperimentSpec& spec, std::optional<uint64_t> trials) const override;

  bool compares_rungs(const ExperimentSpec& spec) const override;

 protected:
  // True if the ranks at the rung do not predict those at the next one (rank_check.h). Trials are
  // then promoted from the rung without a comparison.
  static bool IsMisleading(const ExperimentSpec& spec, const SearchReview& review, uint32_t bracket,
                           double milestone);
  // The milestone at which a row at time `t` is recorded.
  virtual std::optional<double> MilestoneAt(const ScheduledTrial& trial, double t) const = 0;
  // For the plan: how many of `trials` that come to a rung continue from it.
  virtual double ContinuingOf(double trials, double factor) const { return trials / factor; }
  static double ReductionFactor(const ExperimentSpec& spec);
};

// The table of a variant: all have the same options.
AlgorithmTable RungTable(std::string name, std::string meaning);

// A trial's bracket: softmax over the brackets' rung counts.
uint32_t AshaBracket(const AshaOptions& options, Rng& rng);

// The milestone at which a report at time `t` is recorded: the highest one that t has reached and
// that is not in `recorded`. One per report.
std::optional<double> AshaMilestone(const std::vector<double>& milestones, double t,
                                    const std::set<double>& recorded);

// The highest milestone that t has reached; none when the trial was recorded there or beyond.
std::optional<double> NewestMilestone(const ScheduledTrial& trial, double t);

// Whether a trial with `value` stops at a rung, before its own value is inserted: strictly worse
// than the (1 - 1/rf) percentile (linear interpolation) of `values`, ascending and without NaN. An
// empty rung stops nobody, and neither does a NaN value.
bool AshaStops(double reduction_factor, Mode mode, const std::vector<double>& values,
               double value);

}  // namespace rt
