#include "common/search/gp_outcomes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/search/elementary.h"
#include "common/search/improvement_search.h"
#include "common/search/outcomes.h"
#include "common/search/sobol.h"
#include "common/search/taken.h"
#include "common/search/value_model.h"

namespace rt {
namespace {

constexpr uint64_t kOutcomeStream = 0x67705f6d756c7469;
constexpr size_t kOutcomesMin = 3;
// The processes see this many trials, those that come first in the order.
constexpr size_t kHistoryMost = 150;
constexpr size_t kInFlightMost = 100, kBestMost = 5;
constexpr int kConstraintSteps = 30;

class OutcomeProposal {
 public:
  OutcomeProposal(const Encoding& encoding, const Observations& seen, uint64_t seed,
                  uint64_t number, double noise_chance, const GiveUp& give_up)
      : encoding_(encoding), seen_(seen), seed_(seed), number_(number), noise_chance_(noise_chance),
        rng_(seed ^ kOutcomeStream, number), give_up_(give_up) {
    for (const FinishedTrial& trial : seen.finished)
      if (!trial.values.empty()) trials_.push_back(&trial);
    std::sort(trials_.begin(), trials_.end(), [](const FinishedTrial* a, const FinishedTrial* b) {
      return a->value != b->value ? a->value < b->value : a->number < b->number;
    });
    if (trials_.size() > kHistoryMost) trials_.resize(kHistoryMost);
    std::sort(trials_.begin(), trials_.end(),
              [](const FinishedTrial* a, const FinishedTrial* b) { return a->number < b->number; });
  }

  bool HasModel() const { return trials_.size() >= kOutcomesMin; }

  // nullopt: given up. Empty: there is no model.
  std::optional<Point> Find(const Taken& taken) {
    const std::vector<double> combined = CombinedValues(trials_, seed_, number_);
    const GaussianData data = DataOf(combined);
    ValueModel model(encoding_, seed_, noise_chance_);
    const auto [least, most] = std::minmax_element(combined.begin(), combined.end());
    if (*least == *most) return Point{};
    if (!model.Learn(data, combined.size(), give_up_)) return std::nullopt;
    std::optional<ValueModel::Conditioned> conditioned = model.Condition(data);
    if (!conditioned.has_value()) return Point{};
    std::vector<KeptConstraint> constraints;
    if (!FitConstraints(constraints)) return std::nullopt;
    double lowest = HUGE_VAL;
    for (size_t i = 0; i < trials_.size(); ++i)
      if (trials_[i]->violation == 0) lowest = std::min(lowest, conditioned->process.MeanAtData(i));
    GaussianProcess process = conditioned->process;
    if (!BelieveInFlight(process)) return Point{};
    const size_t axes = encoding_.axes().size();
    ImprovementTask task{encoding_,      taken,          process, lowest,
                         Point(axes, 0), Point(axes, 1), false,   BestBy(combined)};
    task.constraints = std::move(constraints);
    task.only_constraints = !std::isfinite(lowest);
    return FindImprovement(task, rng_, give_up_);
  }

 private:
  GaussianData DataOf(const std::vector<double>& values) const {
    GaussianData data{.axes = encoding_.axes().size(), .values = values};
    for (size_t k = 0; k < data.axes; ++k)
      for (const FinishedTrial* trial : trials_) data.coordinates.push_back(trial->point[k]);
    return data;
  }

  // An excess without bound lies as far beyond the others as they lie apart.
  static void MakeFinite(std::vector<double>& excesses) {
    double least = 0, most = 0;  // The bound itself.
    for (const double each : excesses) {
      if (!std::isfinite(each)) continue;
      least = std::min(least, each);
      most = std::max(most, each);
    }
    const double width = most > least ? most - least : 1;
    for (double& each : excesses)
      if (!std::isfinite(each)) each = each > 0 ? most + width : least - width;
  }

  // Standardised; false: given up. A constraint that says nothing is left out.
  bool FitConstraints(std::vector<KeptConstraint>& constraints) {
    for (size_t k = 0; k < trials_.front()->excesses.size(); ++k) {
      std::vector<double> values;
      double mean = 0, squares = 0;
      const double count = static_cast<double>(trials_.size());
      for (const FinishedTrial* trial : trials_) values.push_back(trial->excesses[k]);
      MakeFinite(values);
      for (const double each : values) mean += each / count;
      for (const double each : values) squares += (each - mean) * (each - mean) / count;
      const double deviation = std::sqrt(squares);
      if (!(deviation > 0) || !std::isfinite(deviation)) continue;
      for (double& each : values) each = (each - mean) / deviation;
      GaussianProcess process(WholeForm(encoding_, noise_chance_));
      process.Fit(DataOf(values), kConstraintSteps, give_up_);
      if (give_up_ && give_up_()) return false;
      if (!process.Condition(DataOf(values))) continue;
      constraints.push_back({std::move(process), -mean / deviation});
    }
    return true;
  }

  bool BelieveInFlight(GaussianProcess& process) const {
    std::vector<const FlyingTrial*> flying;
    for (const FlyingTrial& trial : seen_.in_flight) flying.push_back(&trial);
    std::sort(flying.begin(), flying.end(),
              [](const FlyingTrial* a, const FlyingTrial* b) { return a->number > b->number; });
    std::vector<Point> points;
    for (const FlyingTrial* trial : flying)
      if (points.size() < kInFlightMost) points.push_back(trial->point);
    return points.empty() || Believe(process, points);
  }

  std::vector<Point> BestBy(const std::vector<double>& combined) const {
    std::vector<std::pair<double, size_t>> ranked;
    for (size_t i = 0; i < combined.size(); ++i)
      ranked.emplace_back(trials_[i]->violation > 0 ? 1e9 + trials_[i]->violation : combined[i], i);
    std::sort(ranked.begin(), ranked.end());
    std::vector<Point> best;
    for (size_t i = 0; i < std::min(kBestMost, ranked.size()); ++i)
      best.push_back(trials_[ranked[i].second]->point);
    return best;
  }

  const Encoding& encoding_;
  const Observations& seen_;
  const uint64_t seed_, number_;
  const double noise_chance_;
  Rng rng_;
  const GiveUp& give_up_;
  std::vector<const FinishedTrial*> trials_;  // With values, by number.
};

}  // namespace

std::optional<GpAnswer> SuggestGpOutcomes(const Encoding& encoding, const Observations& seen,
                                          uint64_t seed, uint64_t number, const GpOptions& options,
                                          const GiveUp& give_up) {
  const size_t axes = encoding.axes().size();
  GpAnswer answer{.point = encoding.Snap(ScrambledSobol(seed, number, axes)), .from_model = false};
  const Taken taken(encoding, seen);
  OutcomeProposal proposal(encoding, seen, seed, number, options.noise_chance, give_up);
  const size_t startup =
      options.startup_trials > 0 ? options.startup_trials : std::clamp<size_t>(axes, 6, 50);
  if (axes > 0 && seen.finished.size() >= startup && proposal.HasModel()) {
    std::optional<Point> best = proposal.Find(taken);
    if (!best.has_value()) return std::nullopt;
    answer.from_model = !best->empty();
    if (answer.from_model) answer.point = *std::move(best);
  }
  Rng rng(seed, number);
  answer.repeated = !taken.Avoid(answer.point, rng);
  return answer;
}

}  // namespace rt
