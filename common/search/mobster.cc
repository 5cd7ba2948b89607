#include "common/search/mobster.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/base/rng.h"
#include "common/search/history.h"
#include "common/search/improvement_search.h"
#include "common/search/rungs.h"
#include "common/search/sobol.h"
#include "common/search/value_model.h"
#include "common/search/value_warp.h"

namespace rt {
namespace {

// A stream of draws apart from that of Sobol points, which is (seed, number).
constexpr uint64_t kProposalStream = 0x6d6f62737465726e;
// The model uses at most this many rungs: the highest.
constexpr size_t kLevelsMax = 8;
// The model fits its parameters to at most kLearnedMax values of a rung. It fits them again when a
// rung has kLearnedGrowth times as many values.
constexpr size_t kLearnedMax = 60;
constexpr double kLearnedGrowth = 1.2;
// Noise is larger than in a function of the configuration alone: the logarithm of a thousandth.
constexpr double kLnNoise = -6.907755278982137;
constexpr size_t kBelievedMax = 100, kBestKnown = 5;

// The number of the values, the first by number, from which parameters are learned.
size_t LearnedCount(size_t values) {
  size_t count = std::min<size_t>(values, 3);
  for (;;) {
    const size_t next =
        std::max(count + 1, static_cast<size_t>(kLearnedGrowth * static_cast<double>(count)));
    if (next > values) return count;
    count = next;
  }
}

// The scales that are compared: the values as they are, and logarithms of 10, 1, 0.1 and 0.01. The
// last two stretch the best values.
constexpr double kLogScales[] = {kNoScale, 2.302585092994046, 0, -2.302585092994046,
                                 -4.605170185988092};
constexpr size_t kUnstretchedScales = 3;

std::vector<double> AllValues(const std::vector<GaussianData>& rungs) {
  std::vector<double> values;
  for (const GaussianData& data : rungs)
    values.insert(values.end(), data.values.begin(), data.values.end());
  return values;
}

// Warps the values of all rungs as if they were one list; returns what WarpValues returns.
double WarpTogether(double log_scale, std::vector<GaussianData>& rungs) {
  const std::vector<double> values = AllValues(rungs);
  std::vector<double> warped = values;
  const double jacobian = WarpValues(log_scale, values, warped);
  auto next = warped.begin();
  for (GaussianData& data : rungs)
    for (double& value : data.values) value = *next++;
  return jacobian;
}

bool IsSame(const GaussianData& a, const GaussianData& b) {
  return a.values == b.values && a.coordinates == b.coordinates;
}

}  // namespace

Mobster::Mobster(const Encoding& encoding, uint64_t seed, const MobsterOptions& options)
    : encoding_(encoding), seed_(seed), options_(options) {}

std::vector<Mobster::Level> Mobster::LevelsOf(const TrialsByRung& rungs) const {
  const size_t startup = options_.startup_trials > 0
                             ? options_.startup_trials
                             : std::clamp<size_t>(encoding_.axes().size(), 6, 50);
  std::vector<Level> levels;
  size_t most = 0;
  for (const auto& [milestone, trials] : rungs) {
    std::set<double> different;
    size_t finite = 0;
    for (const FinishedTrial& trial : trials) {
      if (!std::isfinite(trial.value)) continue;
      ++finite;
      different.insert(trial.value);
    }
    if (finite < std::max<size_t>(options_.rows_min, 2) || different.size() < 2) continue;
    most = std::max(most, trials.size());
    levels.push_back({milestone, trials});
    std::sort(levels.back().trials.begin(), levels.back().trials.end(),
              [](const FinishedTrial& a, const FinishedTrial& b) { return a.number < b.number; });
  }
  if (most < startup) return {};
  if (levels.size() > kLevelsMax)
    levels.erase(levels.begin(), levels.end() - static_cast<std::ptrdiff_t>(kLevelsMax));
  return levels;
}

GaussianData Mobster::DataOf(const Level& level, size_t count, size_t most) const {
  std::vector<double> values;
  double worst = -HUGE_VAL;
  for (const FinishedTrial& trial : level.trials)
    if (std::isfinite(trial.value)) worst = std::max(worst, trial.value);
  for (size_t i = 0; i < count; ++i) {
    const double value = level.trials[i].value;
    values.push_back(std::isfinite(value) ? value : worst);
  }
  const std::vector<size_t> chosen = BestAndEven(values, most);
  GaussianData data{.axes = encoding_.axes().size()};
  data.coordinates.resize(chosen.size() * data.axes);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Point& point = level.trials[chosen[i]].point;
    for (size_t k = 0; k < data.axes; ++k) data.coordinates[k * chosen.size() + i] = point[k];
    data.values.push_back(values[chosen[i]]);
  }
  return data;
}

// From the first trials by number, so that most proposals find what was learned before.
bool Mobster::Learn(const std::vector<Level>& levels, const GiveUp& give_up) {
  std::vector<GaussianData> from;
  from.reserve(levels.size());
  for (const Level& level : levels)
    from.push_back(DataOf(level, LearnedCount(level.trials.size()), kLearnedMax));
  if (std::equal(from.begin(), from.end(), learned_from_.begin(), learned_from_.end(), IsSame))
    return true;
  GaussianForm form = WholeForm(encoding_);
  form.noise_mean = kLnNoise;
  double least = HUGE_VAL;
  const size_t scales = options_.stretches_best ? std::size(kLogScales) : kUnstretchedScales;
  for (size_t i = 0; i < scales; ++i) {
    const double scale = kLogScales[i];
    std::vector<GaussianData> warped = from;
    double loss = -WarpTogether(scale, warped);
    RungProcess below;
    std::vector<GaussianProcess> processes;
    for (const GaussianData& data : warped) {
      processes.emplace_back(form);
      loss += below.Fit(data, processes.back(), give_up);
      if (give_up && give_up()) return false;
      if (!below.Add(data, processes.back())) break;
    }
    if (below.rungs() < from.size() || !(loss < least)) continue;
    least = loss;
    log_scale_ = scale;
    learned_ = std::move(processes);
  }
  learned_from_ = std::move(from);
  if (least == HUGE_VAL) learned_.clear();
  return true;
}

std::optional<Point> Mobster::Improvement(const Observations& seen,
                                          const std::vector<Level>& levels, const Taken& taken,
                                          Rng& rng, const GiveUp& give_up) {
  if (learned_.empty()) return Point{};
  const size_t most = std::max(options_.history_max, kMobsterHistoryMin);
  std::vector<GaussianData> history;
  history.reserve(levels.size());
  for (const Level& level : levels) history.push_back(DataOf(level, level.trials.size(), most));
  values_ = AllValues(history);
  WarpTogether(log_scale_, history);
  process_ = RungProcess();
  RungProcess& process = process_;
  for (size_t k = 0; k < levels.size(); ++k) {
    if (give_up && give_up()) return std::nullopt;
    if (!process.Add(std::move(history[k]), learned_[k])) return Point{};
  }
  milestone_ = levels.back().milestone;
  const size_t axes = encoding_.axes().size();
  ImprovementTask task{encoding_, taken, process, process.lowest(), Point(axes, 0), Point(axes, 1)};
  std::vector<std::pair<double, Point>> ranked;
  for (const Level& level : levels) {
    for (const FinishedTrial& trial : level.trials) {
      if (give_up && give_up()) return std::nullopt;
      if (std::isfinite(trial.value)) ranked.emplace_back(process.MeanAt(trial.point), trial.point);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  for (size_t i = 0; i < std::min(kBestKnown, ranked.size()); ++i)
    task.best.push_back(ranked[i].second);
  // Those that are recorded nowhere yet count as if they had the value that is expected of them.
  std::vector<std::pair<uint64_t, Point>> pending;
  for (const FlyingTrial& trial : seen.in_flight)
    if (trial.rungs.empty()) pending.emplace_back(trial.number, trial.point);
  std::sort(pending.rbegin(), pending.rend());
  std::vector<Point> believed;
  for (auto& [number, point] : pending)
    if (believed.size() < kBelievedMax) believed.push_back(std::move(point));
  if (!process.Believe(believed)) return Point{};
  return FindImprovement(task, rng, give_up);
}

ModelBelief Mobster::BeliefAt(const Level& highest, const Point& point, uint64_t number) const {
  const auto best = std::min_element(highest.trials.begin(), highest.trials.end(),
                                     [](const FinishedTrial& a, const FinishedTrial& b) {
                                       return IsBetterValue(a.value, b.value);
                                     });
  const auto expected = [&](const Point& at) {
    return Unwarp(log_scale_, values_, process_.At(at));
  };
  return {best->number, number, expected(best->point), expected(point)};
}

// Low rungs may mislead, and only trials that were trained to their ends can tell.
bool Mobster::IsEven(const TrialsByRung& rungs, uint64_t number) const {
  const auto end = rungs.find(kTrainedToTheEnd);
  const double known = end == rungs.end() ? 0 : static_cast<double>(end->second.size());
  const double weight = options_.even_weight;
  const double part = weight > 0 ? weight / (weight + known) : 0;
  // Another stream than that of the model's draws for this trial.
  return Rng(~seed_, number).Chance(std::max(options_.random_fraction, part));
}

std::optional<MobsterAnswer> Mobster::Suggest(const Observations& seen, uint64_t number,
                                              const GiveUp& give_up) {
  const size_t axes = encoding_.axes().size();
  MobsterAnswer answer{.point = encoding_.Snap(ScrambledSobol(seed_, number, axes))};
  const Taken taken(encoding_, seen);
  Rng rng(seed_ ^ kProposalStream, number);
  const TrialsByRung rungs = RungsOf(seen);
  const bool has_model = axes > 0 && !IsEven(rungs, number);
  const std::vector<Level> levels = has_model ? LevelsOf(rungs) : std::vector<Level>{};
  if (give_up && give_up()) return std::nullopt;
  if (!levels.empty()) {
    if (!Learn(levels, give_up)) return std::nullopt;
    std::optional<Point> best = Improvement(seen, levels, taken, rng, give_up);
    if (!best.has_value()) return std::nullopt;
    if (!best->empty()) {
      answer.point = *std::move(best);
      answer.milestone = milestone_;
    }
  }
  answer.repeated = !taken.Avoid(answer.point, rng);
  if (answer.milestone.has_value()) answer.belief = BeliefAt(levels.back(), answer.point, number);
  return answer;
}

}  // namespace rt
