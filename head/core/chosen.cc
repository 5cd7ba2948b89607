#include "head/core/chosen.h"

#include "common/algorithms/registry.h"

namespace rt {

ChosenAlgorithms ChosenBy(const ExperimentSpec& spec) {
  ChosenAlgorithms chosen{.searcher = &SearcherOf(spec), .scheduler = &SchedulerOf(spec)};
  chosen.has_model = chosen.searcher->is_model() && !spec.driver.searches;
  chosen.reads_rungs = chosen.has_model && chosen.searcher->table().reads_rungs;
  // A driver that has a scheduler pauses and resumes trials itself. One that has stop rules of its
  // own decides about rows, too, and leaves this to the scheduler of the head.
  const bool is_drivers = spec.driver.selects_next || !spec.driver.scheduler.empty();
  chosen.explores = chosen.scheduler->explores_on_lane() && !is_drivers;
  chosen.compares_rungs = chosen.scheduler->compares_rungs(spec) && !is_drivers;
  chosen.clones = chosen.scheduler->clones_trials() && !is_drivers;
  chosen.reviews = chosen.scheduler->reviews_trials() && !is_drivers;
  if (!is_drivers) chosen.curves_from = chosen.scheduler->CurvesFrom(spec);
  chosen.compares_brackets = chosen.reviews && chosen.scheduler->compares_brackets();
  const uint32_t brackets = std::max<uint32_t>(1, chosen.scheduler->BracketCount(spec));
  for (uint32_t bracket = 0; bracket < brackets; ++bracket)
    chosen.limits.push_back(chosen.scheduler->LimitsOf(spec, bracket));
  chosen.scheduler_metrics = MetricsOf(AlgorithmKind::kScheduler, spec.scheduler);
  return chosen;
}

}  // namespace rt
