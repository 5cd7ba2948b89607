// The algorithms of one experiment, and what its spec says of them: read once, when the experiment
// is indexed, so that a row is decided without looking options up by name. Part of the index.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/decide/scheduler.h"
#include "common/search/searcher.h"

namespace rt {

struct ChosenAlgorithms {
  const Searcher* searcher = nullptr;
  const Scheduler* scheduler = nullptr;
  bool has_model = false;  // Its configurations come from a model on the compute lane (lane.h).
  bool reads_rungs = false;  // And the model is told what was recorded at rungs.
  bool reviews = false;    // Its scheduler is asked to resume the trials that it has paused.
  bool compares_brackets = false;     // And told of brackets as a whole.
  bool compares_rungs = false;        // And of all rungs.
  bool explores = false;  // The compute lane answers which configurations its clones get.
  bool clones = false;                // And told of the population, of which it clones trials.
  std::optional<double> curves_from;  // The head keeps curves of its trials from this time on.
  std::vector<TrialLimits> limits;             // By bracket; never empty.
  std::vector<NamedMetric> scheduler_metrics;  // Reported values that the scheduler reads.

  const TrialLimits& LimitsOf(uint32_t bracket) const { return limits[bracket % limits.size()]; }
};

ChosenAlgorithms ChosenBy(const ExperimentSpec& spec);

}  // namespace rt
