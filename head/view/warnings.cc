// What a person is warned of when an experiment is shown: pieces of its journalled spec that could
// not be read, and names in its spec that no row has.
#include <algorithm>
#include <cmath>

#include "common/base/strings.h"
#include "common/spec/reported.h"
#include "head/view/parts.h"

namespace rt {
namespace {

// A trial that has not ended counts once it has this many rows: some values come late in a trial.
constexpr uint64_t kRowsBeforeWarning = 10;

// A trial that reported, for long enough that its newest row says what the others have.
const Trial* FindReporter(const Experiment& experiment) {
  for (const Trial& trial : experiment.trials) {
    if (trial.reports == 0) continue;
    if (trial.end != TrialEnd::kNone || trial.reports >= kRowsBeforeWarning) return &trial;
  }
  return nullptr;
}

bool HasReports(const Experiment& experiment) {
  for (const Trial& trial : experiment.trials)
    if (trial.reports > 0) return true;
  return false;
}

bool IsReported(const Experiment& experiment, const std::string& key) {
  const std::vector<std::string>& known = experiment.keys_reported;
  return IsCounter(key) || std::binary_search(known.begin(), known.end(), key);
}

std::string FallbackText(const Experiment& experiment, const ExperimentIndex& index) {
  const ExperimentSpec& spec = index.spec;
  if (index.chosen.explores)
    return "scheduler: " + spec.scheduler.name + " had no answer for " +
           std::to_string(experiment.fallback_trials) +
           " clones, whose configurations were drawn; the last time: " + experiment.fallback_reason;
  if (spec.driver.explores)
    return "scheduler: the driver changed no configuration of " +
           std::to_string(experiment.fallback_trials) + " clones, which have those of " +
           spec.scheduler.name + "; the last time: " + experiment.fallback_reason;
  return "search: " + spec.search.name + " had no answer for " +
         std::to_string(experiment.fallback_trials) + " of " +
         std::to_string(experiment.trials.size()) +
         " trials, whose configurations follow from the space and the seed alone; the last time: " +
         experiment.fallback_reason;
}

std::string UnsavedText(const Experiment& experiment, const ExperimentSpec& spec) {
  return "scheduler: trials that were paused (" + std::to_string(experiment.unsaved_pauses) +
         ") had saved no checkpoint, so that " + spec.scheduler.name +
         " no longer pauses trials without one; report a checkpoint with the row of each rung";
}

// A trial was compared with the others, and none has a checkpoint that a bad one could take.
bool ComparesInVain(const World& world, const Experiment& experiment) {
  if (!world.index.experiments.at(experiment.id).chosen.clones || experiment.rungs.empty())
    return false;
  return std::all_of(experiment.trials.begin(), experiment.trials.end(),
                     [](const Trial& trial) { return trial.runs.next_checkpoint <= 1; });
}

std::string UnclonedText(const ExperimentSpec& spec) {
  return "scheduler: no trial has saved a checkpoint, so that " + spec.scheduler.name +
         " replaces none; report a checkpoint with the row of each interval";
}

// Why no row is the best. `metrics`: of the newest row of a trial.
std::string NoBestText(const ExperimentSpec& spec, const Json& metrics) {
  std::vector<std::string> bounds;
  for (const StopRule& each : spec.constraints) {
    if (FindFlat(metrics, each.key) == nullptr)
      return "constraints: no row has '" + each.key + "'; " + ReportedText(metrics, each.key);
    bounds.push_back(each.key + (each.at_most ? " <= " : " >= ") + FormatDouble(each.threshold));
  }
  const Json* value = FindFlat(metrics, spec.metric);
  const bool is_number = value != nullptr && value->HasDouble() && std::isfinite(value->AsDouble());
  if (!bounds.empty() && is_number)
    return "constraints: no row keeps them, so that no trial is the best: " + Join(bounds, ", ");
  return "metric: no row has a number for '" + spec.metric + "'; " +
         ReportedText(metrics, spec.metric);
}

std::string SilenceText(const ExperimentSpec& spec) {
  std::string text = "no trial has reported anything";
  if (!spec.metric.empty()) text += ", so no trials can be compared by '" + spec.metric + "'";
  else text += ", so no stop rule applies";
  return text + "; report metrics with rt.tune.report, `rt report` or RT_REPORT lines";
}

}  // namespace

std::vector<std::string> WarningsOf(const World& world, const Experiment& experiment) {
  const ExperimentIndex& index = world.index.experiments.at(experiment.id);
  std::vector<std::string> warnings = index.warnings;
  if (experiment.fallback_trials > 0) warnings.push_back(FallbackText(experiment, index));
  if (experiment.unsaved_pauses > 0) warnings.push_back(UnsavedText(experiment, index.spec));
  if (ComparesInVain(world, experiment)) warnings.push_back(UnclonedText(index.spec));
  if (experiment.spec_format == 0) return warnings;  // Its keys were not noted.
  const ExperimentSpec& spec = index.spec;
  const bool reads_rows = !spec.metric.empty() || !spec.stop.empty() || spec.stop_when.is_given() ||
                          spec.plateau.is_given() || spec.experiment_plateau.is_given();
  if (reads_rows && index.completed > 0 && !HasReports(experiment))
    warnings.push_back(SilenceText(spec));
  const Trial* reporter = FindReporter(experiment);
  if (reporter == nullptr) return warnings;
  const Json metrics = ParsedOrNull(reporter->last.metrics);
  if (!spec.metric.empty() && !index.best_trial.has_value())
    warnings.push_back(NoBestText(spec, metrics));
  for (const StopRule& rule : spec.stop)
    if (!IsReported(experiment, rule.key))
      warnings.push_back("stop: no row has '" + rule.key + "', so that this rule never applies; " +
                         ReportedText(metrics, rule.key));
  if (spec.plateau.is_given() && !IsReported(experiment, spec.plateau.metric))
    warnings.push_back("stop/plateau: no row has '" + spec.plateau.metric +
                       "', so that this rule " + "never applies; " +
                       ReportedText(metrics, spec.plateau.metric));
  const std::string& of_best = spec.experiment_plateau.metric;
  if (!of_best.empty() && !IsReported(experiment, of_best))
    warnings.push_back("stop/experiment_plateau: no row has '" + of_best +
                       "', so that this rule never applies; " + ReportedText(metrics, of_best));
  for (const std::string& name : index.stop_names)
    if (!IsReported(experiment, name))
      warnings.push_back("stop: no row has '" + name + "', so that comparisons with it stop no " +
                         "trial; " + ReportedText(metrics, name));
  for (const auto& [option, metric] : index.chosen.scheduler_metrics)
    if (!IsReported(experiment, metric))
      warnings.push_back("scheduler: no row has the " + option + " '" + metric + "', so that " +
                         spec.scheduler.name + " decides nothing; " +
                         ReportedText(metrics, metric));
  return warnings;
}

}  // namespace rt
