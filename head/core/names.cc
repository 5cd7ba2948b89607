#include "head/core/names.h"

#include "head/core/draft.h"

namespace rt {

std::string TrialName(const Experiment& experiment, const ExperimentIndex& index, uint32_t number) {
  const ExperimentSpec& spec = index.spec;
  if (const std::string& own = experiment.trials.at(number).name; !own.empty()) return own;
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  std::string suffix = "_" + std::to_string(experiment.id.value) + "_" + digits;
  std::string name = spec.trainable.empty() ? spec.name : spec.trainable;
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  return name + suffix;
}

std::string TrialDirectory(const Experiment& experiment, const ExperimentIndex& index,
                           uint32_t number) {
  const std::string& own = experiment.trials.at(number).directory;
  return experiment.results_dir + "/" + (own.empty() ? TrialName(experiment, index, number) : own);
}

const char* NodeStateName(const Core& core, const Node& node) {
  if (node.gone) return "GONE";
  if (node.lost) return "LOST";
  if (!node.ready) return "STARTING";
  if (node.draining) return "DRAINING";
  if (node.away_until != 0) return "SUSPECT";
  return MayTakeWork(core, node.id, core.soft.last_step_at) ||
                 (core.soft.nodes.contains(node.id) && core.soft.nodes.at(node.id).zombies)
             ? "READY"
             : "SUSPECT";
}

}  // namespace rt
