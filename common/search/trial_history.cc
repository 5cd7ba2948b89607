#include "common/search/trial_history.h"

#include <algorithm>
#include <cmath>

#include "common/search/sobol_search.h"

namespace rt {

TrialHistory::TrialHistory(const ExperimentSpec& spec, uint64_t seed)
    : encoding_(Encoding::Of(spec.space)), sign_(spec.mode == Mode::kMax ? -1 : 1), outcomes_(spec) {
  const size_t given = PointsOf(spec).size();
  for (uint64_t number = 0; number < given; ++number)
    given_.push_back(SobolConfiguration(spec, seed, number));
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
  Observations seen;
  for (uint64_t number = 0; number < results.size(); ++number) {
    if (!points_[number].has_value()) continue;
    const Point& point = *points_[number];
    const TrialResult& result = results[number];
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
