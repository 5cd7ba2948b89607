#include "head/core/warm_start.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/algorithms/known_results.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/search/given_options.h"
#include "head/core/lane.h"

namespace rt {
namespace {

struct KnownResult {
  const Trial* trial;
  Json value;    // A number, or a list of them.
  double order;  // Less is better.
};

std::vector<std::string> MetricsOf(const ExperimentSpec& spec) {
  std::vector<std::string> keys = spec.OutcomeKeys();
  return keys.empty() ? std::vector<std::string>{spec.metric} : keys;
}

// "loss (min), latency (max), with constraints of memory".
std::string ImprovedBy(const ExperimentSpec& spec) {
  const auto named = [](const std::string& metric, Mode mode) {
    return metric + (mode == Mode::kMax ? " (max)" : " (min)");
  };
  std::vector<std::string> metrics, constrained;
  for (const Objective& each : spec.objectives) metrics.push_back(named(each.metric, each.mode));
  if (metrics.empty()) metrics.push_back(named(spec.metric, spec.mode));
  for (const StopRule& each : spec.constraints) constrained.push_back(each.key);
  return Join(metrics, ", ") +
         (constrained.empty() ? "" : ", with constraints of " + Join(constrained, ", "));
}

std::vector<KnownResult> KnownResultsOf(const Experiment& experiment,
                                        const ExperimentIndex& index) {
  const std::vector<TrialResult> results = ResultsOf(experiment, index);
  std::vector<KnownResult> known;
  for (size_t i = 0; i < results.size(); ++i) {
    const TrialResult& result = results[i];
    if (result.kind != TrialResult::Kind::kValue) continue;
    const double first = result.outcome.empty() ? result.value : result.outcome.front();
    Json value(first);
    if (!result.outcome.empty()) {
      value = Json::MakeArray();
      for (const double each : result.outcome) value.Append(each);
    }
    const double order = index.spec.mode == Mode::kMax ? -first : first;
    known.push_back({&experiment.trials[i], std::move(value), order});
  }
  return known;
}

// The best half of what may be kept, and the newest of the others; in their order.
void KeepSome(std::vector<KnownResult>& known, size_t most) {
  if (known.size() <= most) return;
  std::vector<double> orders;
  for (const KnownResult& each : known) orders.push_back(each.order);
  const auto last = orders.begin() + static_cast<std::ptrdiff_t>((most + 1) / 2) - 1;
  std::nth_element(orders.begin(), last, orders.end());
  const double least = *last;
  size_t best = (most + 1) / 2, newest = most - best;
  std::vector<KnownResult> kept;
  for (size_t i = known.size(); i-- > 0;) {
    size_t& left = known[i].order <= least && best > 0 ? best : newest;
    if (left == 0) continue;
    --left;
    kept.push_back(std::move(known[i]));
  }
  std::reverse(kept.begin(), kept.end());
  known = std::move(kept);
}

// As much as a client may write into a spec itself.
bool IsTooLarge(const std::vector<KnownResult>& known) {
  constexpr size_t kBesides = 64;  // The value, and the keys.
  size_t bytes = 0;
  for (const KnownResult& each : known) bytes += each.trial->params.size() + kBesides;
  return bytes > limits::kSpecBytesMax;
}

}  // namespace

absl::Status AddWarmStart(const World& world, ExperimentSpec& spec) {
  const Json* given = spec.search.options.Find(kWarmStartOption);
  if (given == nullptr || !given->is_array() || given->array().empty()) return absl::OkStatus();
  const std::string path = "search/" + spec.search.name + "/" + kWarmStartOption;
  std::vector<KnownResult> known;
  for (const Json& number : given->array()) {
    const ExperimentId id{static_cast<uint64_t>(number.AsInt())};
    const auto found = world.state.experiments.find(id);
    if (found == world.state.experiments.end())
      return SpecError(path, "there is no experiment " + std::to_string(id.value),
                       "rt exp list shows those that there are");
    const ExperimentIndex& index = world.index.experiments.at(id);
    const ExperimentSpec& old = index.spec;
    if (MetricsOf(old) != MetricsOf(spec) || old.mode != spec.mode)
      return SpecError(path,
                       "experiment " + std::to_string(id.value) + " improves " + ImprovedBy(old) +
                           ", and this one " + ImprovedBy(spec),
                       "metric, mode and the keys of constraints must be the same");
    for (KnownResult& each : KnownResultsOf(found->second, index)) known.push_back(std::move(each));
  }
  KeepSome(known, limits::kWarmResultsMax);
  while (known.size() > 1 && IsTooLarge(known)) KeepSome(known, known.size() / 2);
  Json evaluated = *spec.search.options.Find(kEvaluatedOption);
  RT_ASSIGN_OR_RETURN(const Encoding encoding, Encoding::Of(spec.space));
  const size_t given_before = evaluated.array().size();
  for (KnownResult& each : known) {
    const absl::StatusOr<Json> config = Json::Parse(each.trial->params);
    if (!config.ok() || !config->is_object() || !LiesIn(encoding, spec.space, *config)) continue;
    evaluated.Append(Json::MakeObject({{"config", *config}, {"value", std::move(each.value)}}));
  }
  if (!known.empty() && evaluated.array().size() == given_before)
    return SpecError(path, "no configuration of the earlier trials lies in this space",
                     "the space must have the same parameters, and ranges that overlap");
  spec.search.options.Set(kEvaluatedOption, std::move(evaluated));
  spec.search.options.Set(kWarmStartOption, Json::MakeArray());
  return absl::OkStatus();
}

}  // namespace rt
