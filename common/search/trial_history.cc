#include "common/search/trial_history.h"

#include <algorithm>
#include <cmath>

#include "common/search/given_options.h"
#include "common/search/sobol_search.h"

namespace rt {
namespace {

absl::StatusOr<Encoding> EncodingOf(const ExperimentSpec& spec) {
  absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
  if (encoding.ok() && spec.compares_configurations) encoding->CompareConfigurations();
  return encoding;
}

}  // namespace

TrialHistory::TrialHistory(const ExperimentSpec& spec, uint64_t seed)
    : encoding_(EncodingOf(spec)), sign_(spec.mode == Mode::kMax ? -1 : 1), outcomes_(spec) {
  const size_t given = PointsOf(spec).size();
  for (uint64_t number = 0; number < given; ++number)
    given_.push_back(SobolConfiguration(spec, seed, number));
  const Json* evaluated = spec.search.options.Find(kEvaluatedOption);
  if (encoding_.ok() && evaluated != nullptr && evaluated->is_array())
    for (const Json& each : evaluated->array()) AddEvaluated(each);
}

// In the order in which they are given, before every trial.
void TrialHistory::AddEvaluated(const Json& result) {
  const Json *config = result.Find("config"), *value = result.Find("value");
  if (config == nullptr || value == nullptr) return;
  std::optional<Point> point = encoding_->Encode(*config);
  if (!point.has_value()) return;
  FinishedTrial trial{evaluated_.size(), *std::move(point), std::nan(""),
                      INT64_MIN + static_cast<int64_t>(evaluated_.size())};
  std::vector<double> values;
  if (value->is_array())
    for (const Json& each : value->array()) values.push_back(each.AsDouble());
  else if (value->HasDouble()) values.push_back(value->AsDouble());
  if (outcomes_.Any()) {
    if (outcomes_.Observe(values, trial)) trial.value = 0;
  } else if (values.size() == 1) {
    trial.value = sign_ * values.front();
  }
  evaluated_.push_back(std::move(trial));
}

void TrialHistory::Add(const Json& params) {
  points_.push_back(encoding_.ok() ? encoding_->Encode(params) : std::nullopt);
}

void TrialHistory::ForgetFrom(uint64_t number) {
  points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(number), points_.end());
  if (settled_.size() <= number) return;
  const bool were_open =
      std::all_of(settled_.begin() + static_cast<std::ptrdiff_t>(number), settled_.end(),
                  [](const TrialResult& each) { return each.kind == TrialResult::Kind::kOpen; });
  settled_.resize(were_open ? number : 0);  // The points of those that have ended may change.
}

std::optional<Json> TrialHistory::GivenTo(uint64_t number) const {
  if (number >= given_.size()) return std::nullopt;
  return given_[number];
}

const Observations& TrialHistory::SeenIn(const std::vector<TrialResult>& results) {
  const auto is_settled_otherwise = [&](size_t i) {
    return settled_[i].kind != TrialResult::Kind::kOpen &&
           !(i < results.size() && settled_[i] == results[i]);
  };
  for (size_t i = 0; i < settled_.size(); ++i) {
    if (!is_settled_otherwise(i)) continue;
    settled_.clear();
    break;
  }
  if (settled_.empty()) seen_.finished = evaluated_;
  settled_.resize(results.size());
  seen_.in_flight.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    const TrialResult& result = results[i];
    if (settled_[i].kind != TrialResult::Kind::kOpen || !points_[i].has_value()) continue;
    const Point& point = *points_[i];
    const uint64_t number = evaluated_.size() + i;
    if (result.kind == TrialResult::Kind::kOpen) {
      seen_.in_flight.push_back({number, point, Minimised(result.rungs)});
      continue;
    }
    settled_[i] = result;
    if (result.kind == TrialResult::Kind::kUnknown) continue;
    FinishedTrial& trial = seen_.finished.emplace_back();
    trial = {number, point, std::nan(""), result.ended_at};
    trial.rungs = Minimised(result.rungs);
    if (result.kind == TrialResult::Kind::kBad) continue;
    if (!outcomes_.Any() || outcomes_.Observe(result.outcome, trial))
      trial.value = sign_ * result.value;
  }
  if (outcomes_.Any()) outcomes_.Order(seen_.finished);
  return seen_;
}

ModelBelief TrialHistory::AsReported(ModelBelief belief) const {
  const bool is_trial = belief.best.has_value() && *belief.best >= evaluated_.size();
  belief.best = is_trial ? std::optional(*belief.best - evaluated_.size()) : std::nullopt;
  if (sign_ > 0) return belief;
  belief.of_best = belief.of_best.Negated();
  belief.of_next = belief.of_next.Negated();
  return belief;
}

std::vector<RungResult> TrialHistory::Minimised(std::vector<RungResult> rungs) const {
  for (RungResult& each : rungs) each.value *= sign_;
  return rungs;
}

absl::StatusOr<Json> TrialHistory::ConfigurationAt(const Point& point) const {
  const auto is_finite = [](double coordinate) { return std::isfinite(coordinate); };
  if (!std::all_of(point.begin(), point.end(), is_finite))
    return absl::InternalError("its point is not finite");
  return encoding_->Decode(point);
}

}  // namespace rt
