#include "common/search/trial_history.h"

#include <algorithm>
#include <cmath>

#include "common/search/given_options.h"
#include "common/search/sobol_search.h"

namespace rt {

TrialHistory::TrialHistory(const ExperimentSpec& spec, uint64_t seed)
    : encoding_(Encoding::Of(spec.space)), sign_(spec.mode == Mode::kMax ? -1 : 1), outcomes_(spec) {
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
}

std::optional<Json> TrialHistory::GivenTo(uint64_t number) const {
  if (number >= given_.size()) return std::nullopt;
  return given_[number];
}

Observations TrialHistory::SeenIn(const std::vector<TrialResult>& results) const {
  Observations seen{.finished = evaluated_};
  for (uint64_t i = 0; i < results.size(); ++i) {
    if (!points_[i].has_value()) continue;
    const Point& point = *points_[i];
    const TrialResult& result = results[i];
    const uint64_t number = evaluated_.size() + i;
    switch (result.kind) {
      case TrialResult::Kind::kOpen: seen.in_flight.push_back({number, point}); break;
      case TrialResult::Kind::kValue:
        seen.finished.push_back({number, point, sign_ * result.value, result.ended_at});
        if (outcomes_.Any() && !outcomes_.Observe(result.outcome, seen.finished.back()))
          seen.finished.back().value = std::nan("");
        break;
      case TrialResult::Kind::kBad:
        seen.finished.push_back({number, point, std::nan(""), result.ended_at});
        break;
      case TrialResult::Kind::kUnknown: break;
    }
  }
  if (outcomes_.Any()) outcomes_.Order(seen.finished);
  return seen;
}

absl::StatusOr<Json> TrialHistory::ConfigurationAt(const Point& point) const {
  const auto is_finite = [](double coordinate) { return std::isfinite(coordinate); };
  if (!std::all_of(point.begin(), point.end(), is_finite))
    return absl::InternalError("its point is not finite");
  return encoding_->Decode(point);
}

}  // namespace rt
