#include "common/search/gp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/rng.h"
#include "common/search/elementary.h"
#include "common/search/history.h"
#include "common/search/improvement_search.h"
#include "common/search/sobol.h"

namespace rt {
namespace {

// A stream of draws apart from that of Sobol points, which is (seed, number).
constexpr uint64_t kProposalStream = 0x67705f6e657874;
constexpr double kNoiseChance = 0.02;  // Since version 2.
// Finite values that the model begins with at least.
constexpr size_t kValuesMin = 3;
// With more axes than this most trials are searched for in the region.
constexpr size_t kManyAxes = 15;
// Of the trials in flight, the newest that the model is told of.
constexpr size_t kInFlightMax = 100;
constexpr size_t kBestKnown = 5;
// The side of the region: at the start, at most, and where it begins anew.
constexpr double kSide = 0.8, kSideMax = 1.6, kSideMin = 1.0 / 128;
// It doubles after so many better results in a row, and halves after so many others.
constexpr size_t kBetterInRow = 3, kWorseInRow = 4;
// The parameters are fitted to this many results at most: a fit takes a hundred times as long as
// the prediction from what it found.
constexpr size_t kFittedMax = 200;
// A result is better when it is below the best by this part of the distance to the median.
constexpr double kBetterPart = 1e-3;
// On each axis the side is that times the relative length, which is bounded by e^-1 and e.
constexpr double kStretchMax = 1;

}  // namespace

GpOptions GpDefaults(uint32_t version) {
  GpOptions options;
  if (version >= 2) options.noise_chance = kNoiseChance;
  return options;
}

GpOptimizer::GpOptimizer(const Encoding& encoding, uint64_t seed, const GpOptions& options)
    : encoding_(encoding), seed_(seed), options_(options), region_{kSide},
      model_(encoding, seed, options.noise_chance) {
  Forget(0);
}

void GpOptimizer::Forget(size_t results) {
  results_.clear();
  finite_ = learned_ = 0;
  least_ = HUGE_VAL;
  most_ = -HUGE_VAL;
  region_ = {kSide};
  model_ = ValueModel(encoding_, seed_, options_.noise_chance);
  learns_from_ = StartOfLearning(results);
  conditioned_.reset();
}

// Learning begins anew when the results have doubled since history_max, so that an object that was
// made for many results need not repeat all of it.
size_t GpOptimizer::StartOfLearning(size_t results) const {
  size_t start = std::max(options_.history_max, kGpHistoryMin);
  if (results < start) return 0;
  while (results / 2 >= start) start *= 2;
  return start;
}

bool GpOptimizer::Continues(const std::vector<const FinishedTrial*>& ordered) const {
  if (ordered.size() < results_.size()) return false;
  for (size_t i = 0; i < results_.size(); ++i) {
    const FinishedTrial& trial = *ordered[i];
    const Result& known = results_[i];
    const bool both_bad = !std::isfinite(trial.value) && !std::isfinite(known.value);
    if (trial.number != known.number || !(trial.value == known.value || both_bad)) return false;
    if (trial.point != known.point) return false;
  }
  return true;
}

bool GpOptimizer::CatchUp(const Observations& seen, const GiveUp& give_up) {
  const std::vector<const FinishedTrial*> ordered = ByEnd(seen);
  if (!Continues(ordered)) Forget(ordered.size());
  for (size_t next = results_.size();; ++next) {
    if (give_up && give_up()) return false;
    if (!Learn(give_up)) return false;
    if (next == ordered.size()) return true;
    Take(*ordered[next]);
  }
}

void GpOptimizer::Take(const FinishedTrial& trial) {
  conditioned_.reset();
  AdaptRegion(trial.value);
  results_.push_back({trial.number, trial.point, trial.value});
  if (!std::isfinite(trial.value)) return;
  ++finite_;
  least_ = std::min(least_, trial.value);
  most_ = std::max(most_, trial.value);
}

void GpOptimizer::AdaptRegion(double value) {
  std::vector<double> values;
  for (const Result& known : results_)
    if (std::isfinite(known.value)) values.push_back(known.value);
  if (values.empty()) return;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  // Halves, because a difference may overflow.
  const double margin = kBetterPart * 2 * (0.5 * *middle - 0.5 * least_);
  if (std::isfinite(value) && value < least_ - margin) {
    ++region_.better;
    region_.worse = 0;
  } else {
    ++region_.worse;
    region_.better = 0;
  }
  if (region_.better >= kBetterInRow) region_ = {std::min(kSideMax, 2 * region_.side)};
  if (region_.worse >= std::max(kWorseInRow, encoding_.axes().size())) {
    region_ = {0.5 * region_.side};
    if (region_.side < kSideMin) region_ = {kSide};
  }
}

bool GpOptimizer::HasModel() const {
  const size_t startup = options_.startup_trials > 0
                             ? options_.startup_trials
                             : std::clamp<size_t>(encoding_.axes().size(), 6, 50);
  return results_.size() >= startup && finite_ >= kValuesMin && least_ < most_;
}

bool GpOptimizer::Learn(const GiveUp& give_up) {
  const size_t results = results_.size();
  if (learned_ == results) return true;
  if (results > 0 && StartOfLearning(results) == results)
    model_ = ValueModel(encoding_, seed_, options_.noise_chance);
  if (results >= learns_from_ && HasModel() && model_.LearnsAt(results)) {
    ValueModel next = model_;
    if (!next.Learn(DataOf(History(kFittedMax)), results, give_up)) return false;
    model_ = std::move(next);
  }
  learned_ = results;
  return true;
}

// The results that the process sees, at most `most`: all, or one half the best and the other evenly
// by rank.
std::vector<size_t> GpOptimizer::History(size_t most) const {
  most = std::min(most, std::max(options_.history_max, kGpHistoryMin));
  std::vector<double> values;
  for (const Result& result : results_) values.push_back(result.value);
  return BestAndEven(values, most);
}

// A value that is not finite counts as the worst.
GaussianData GpOptimizer::DataOf(const std::vector<size_t>& history) const {
  const size_t count = history.size();
  GaussianData data{.axes = encoding_.axes().size()};
  data.coordinates.resize(count * data.axes);
  for (size_t i = 0; i < count; ++i) {
    const Result& result = results_[history[i]];
    for (size_t k = 0; k < data.axes; ++k) data.coordinates[k * count + i] = result.point[k];
    data.values.push_back(std::isfinite(result.value) ? result.value : most_);
  }
  return data;
}

bool GpOptimizer::IsLocal(uint64_t number) const {
  if (options_.local_every == 0) return false;
  const bool is_one_of_many = number % options_.local_every == 0;
  return encoding_.axes().size() > kManyAxes ? !is_one_of_many : is_one_of_many;
}

std::optional<Point> GpOptimizer::Improvement(const Observations& seen, const Taken& taken,
                                              uint64_t number, Rng& rng, const GiveUp& give_up) {
  const std::vector<size_t> history = History(options_.history_max);
  if (!conditioned_.has_value()) conditioned_ = model_.Condition(DataOf(history));
  if (!conditioned_.has_value()) return Point{};
  GaussianProcess process = conditioned_->process;
  std::vector<std::pair<uint64_t, Point>> in_flight;
  for (const FlyingTrial& trial : seen.in_flight) in_flight.emplace_back(trial.number, trial.point);
  std::sort(in_flight.rbegin(), in_flight.rend());
  std::vector<Point> believed;
  for (auto& [each, point] : in_flight)
    if (believed.size() < kInFlightMax) believed.push_back(std::move(point));
  if (!believed.empty() && !Believe(process, believed)) return Point{};

  const size_t axes = encoding_.axes().size();
  ImprovementTask task{encoding_,      taken,          process, conditioned_->lowest,
                       Point(axes, 0), Point(axes, 1), false,   {}};
  std::vector<std::pair<double, size_t>> ranked;
  for (const size_t i : history)
    if (std::isfinite(results_[i].value)) ranked.emplace_back(results_[i].value, i);
  std::sort(ranked.begin(), ranked.end());
  for (size_t i = 0; i < std::min(kBestKnown, ranked.size()); ++i)
    task.best.push_back(results_[ranked[i].second].point);
  if (IsLocal(number)) {
    task.keeps_categories = true;
    const std::vector<double> lengths = process.LogLengths();
    double mean = 0;
    for (const double each : lengths) mean += each / static_cast<double>(axes);
    for (size_t k = 0; k < axes; ++k) {
      if (encoding_.axes()[k].kind() == Axis::Kind::kCategories) continue;
      const double stretch = std::clamp(lengths[k] - mean, -kStretchMax, kStretchMax);
      const double half = 0.5 * region_.side * Exp(stretch), centre = task.best.front()[k];
      task.lower[k] = std::max(0.0, centre - half);
      task.upper[k] = std::min(1.0, centre + half);
    }
  }
  return FindImprovement(task, rng, give_up);
}

ModelBelief GpOptimizer::BeliefAt(const Point& point, uint64_t number) const {
  const GaussianData data = DataOf(History(options_.history_max));
  const auto best = std::min_element(
      results_.begin(), results_.end(),
      [](const Result& a, const Result& b) { return IsBetterValue(a.value, b.value); });
  const auto expected = [&](const Point& at) {
    return model_.ExpectationOf(data, conditioned_->process.At(at));
  };
  return {best->number, number, expected(best->point), expected(point)};
}

std::optional<GpAnswer> GpOptimizer::Suggest(const Observations& seen, uint64_t number,
                                             const GiveUp& give_up) {
  const size_t axes = encoding_.axes().size();
  GpAnswer answer{.point = encoding_.Snap(ScrambledSobol(seed_, number, axes)),
                  .from_model = false};
  const Taken taken(encoding_, seen);
  Rng rng(seed_ ^ kProposalStream, number);
  if (axes > 0) {
    if (!CatchUp(seen, give_up)) return std::nullopt;
    if (HasModel()) {
      std::optional<Point> best = Improvement(seen, taken, number, rng, give_up);
      if (!best.has_value()) return std::nullopt;
      answer.from_model = !best->empty();
      if (answer.from_model) answer.point = *std::move(best);
    }
  }
  answer.repeated = !taken.Avoid(answer.point, rng);
  if (answer.from_model) answer.belief = BeliefAt(answer.point, number);
  return answer;
}

}  // namespace rt
