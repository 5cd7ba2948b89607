// How near a search is to the end that its plateau rule gives it.
#include "common/spec/plateau.h"

#include "common/base/strings.h"
#include "head/view/parts.h"

namespace rt {

Json PlateauOf(const Experiment& experiment, const ExperimentPlateauRule& rule) {
  if (!rule.is_given()) return Json();
  const BestValues& best = experiment.best_values;
  const std::string top = std::to_string(rule.top);
  if (best.values.size() < rule.top)
    return Json(std::to_string(best.values.size()) + " of the " + top + " best values of " +
                rule.metric + " are there");
  std::string text = "the " + top + " best values of " + rule.metric + " deviate by " +
                     FormatDouble(Deviation(best.values));
  if (best.agreed == 0) return Json(text + "; the rule's bound is " + FormatDouble(rule.std));
  text += ", at most " + FormatDouble(rule.std) + ", after " + std::to_string(best.agreed);
  return Json(text + " of " + std::to_string(std::max<uint32_t>(1, rule.patience)) + " results");
}

}  // namespace rt
