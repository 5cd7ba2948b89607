// The predictions of an experiment's search model.
#include <cmath>

#include "head/core/core.h"
#include "head/view/parts.h"

namespace rt {

// A value that is not finite is null.
static Json ExpectationOf(const std::optional<TrialId>& trial, const Expectation& expected) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return Json::MakeObject({{"trial_id", trial.has_value() ? Json(ToString(*trial)) : Json()},
                           {"value", number(expected.value)},
                           {"low", number(expected.low)},
                           {"high", number(expected.high)}});
}

Json BeliefOf(const Core& core, ExperimentId id) {
  const auto found = core.soft.beliefs.find(id);
  if (found == core.soft.beliefs.end()) return {};
  const ModelBelief& belief = found->second;
  std::optional<TrialId> best;
  if (belief.best.has_value()) best = TrialId{id, static_cast<uint32_t>(*belief.best)};
  const TrialId next{id, static_cast<uint32_t>(belief.next)};
  return Json::MakeObject({{"best", ExpectationOf(best, belief.of_best)},
                           {"next", ExpectationOf(next, belief.of_next)}});
}

}  // namespace rt
