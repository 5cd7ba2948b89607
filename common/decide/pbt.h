// Population based training (Jaderberg et al. 2017), with the options and the explore step of Ray's
// PopulationBasedTraining. Once in each perturbation interval a trial in the lowest quantile of the
// population takes the newest checkpoint of a random trial in the highest quantile, and a mutation
// of that trial's configuration. Pure.
//
// A population that is larger than the capacity takes turns: a trial pauses at its milestone while
// others wait for nodes, and the least advanced one is resumed next. With `synch` every trial
// pauses at its milestone; when all have, the lowest quantile is replaced, and all are resumed.
// Where Ray multiplies beyond the range of a domain, or multiplies a choice, a value stays in its
// domain here. The intervals of all trials begin at multiples of the interval.
#pragma once

#include "common/base/rng.h"
#include "common/decide/scheduler.h"
#include "common/spec/space.h"

namespace rt {

const Scheduler& Pbt();

// What population based training and PB2 (pb2.h) have in common.
class PopulationScheduler : public Scheduler {
 public:
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t bracket) const override;
  RowVerdict OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                   const RowView& row) const override;
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double value) const override;
  bool reviews_trials() const override { return true; }
  bool clones_trials() const override { return true; }
  bool compares_population(const ExperimentSpec& spec) const override;
  ReviewVerdict Review(const ExperimentSpec& spec, const SearchReview& review) const override;
  std::optional<uint32_t> ParentOf(const ExperimentSpec& spec,
                                   const SearchReview& review) const override;

 protected:
  // A clone for the trial, if it is in the lowest quantile and may be cloned here.
  virtual void Exploit(const ExperimentSpec& spec, const SearchReview& review, uint32_t trial,
                       ReviewVerdict& verdict) const;
};
// The options that say when trials are compared, and how many are replaced.
std::vector<AlgorithmOption> PopulationOptions();

// So many trials are in the lowest quantile, and as many in the highest, of `scored` trials.
size_t QuantileSize(size_t scored, double fraction);

struct ExploreOptions {
  double resample_probability = 0.25;
  double increase_factor = 1.2;
  double decrease_factor = 0.8;
  Json (*draw)(const Domain& domain, Rng& rng) = nullptr;  // A value of the domain.
};
// Returns `params` with a new value for each parameter of `mutations`:
// - a list: a neighbour of the value in the list. An element of the list is drawn with the resample
//   probability, and when the value is not in the list.
// - a domain: the value times one of the two factors. A value of the domain is drawn with the
//   resample probability, and when the value is not a number.
// - a map: the same for its members.
Json Explore(Json params, const Json& mutations, const ExploreOptions& options, Rng& rng);

}  // namespace rt
