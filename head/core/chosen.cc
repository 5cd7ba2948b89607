#include "head/core/chosen.h"

#include "common/algorithms/registry.h"

namespace rt {

ChosenAlgorithms ChosenBy(const ExperimentSpec& spec) {
  ChosenAlgorithms chosen{.searcher = &SearcherOf(spec), .scheduler = &SchedulerOf(spec)};
  chosen.has_model = chosen.searcher->is_model() && !spec.driver.searches;
  chosen.explores = chosen.scheduler->explores_on_lane() && !spec.driver.schedules;
  chosen.compares_rungs = chosen.scheduler->compares_rungs(spec) && !spec.driver.schedules;
  chosen.clones = chosen.scheduler->clones_trials() && !spec.driver.schedules;
  // A driver that schedules pauses and resumes trials itself.
  chosen.reviews = chosen.scheduler->reviews_trials() && !spec.driver.schedules;
  if (!spec.driver.schedules) chosen.curves_from = chosen.scheduler->CurvesFrom(spec);
  chosen.compares_brackets = chosen.reviews && chosen.scheduler->compares_brackets();
  const uint32_t brackets = std::max<uint32_t>(1, chosen.scheduler->BracketCount(spec));
  for (uint32_t bracket = 0; bracket < brackets; ++bracket)
    chosen.limits.push_back(chosen.scheduler->LimitsOf(spec, bracket));
  chosen.scheduler_metrics = MetricsOf(AlgorithmKind::kScheduler, spec.scheduler);
  return chosen;
}

}  // namespace rt
