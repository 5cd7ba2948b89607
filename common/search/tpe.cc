#include "common/search/tpe.h"

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "common/search/elementary.h"
#include "common/search/mixture.h"
#include "common/search/sobol.h"
#include "common/search/taken.h"

namespace rt {
namespace {

// Finite values that a model needs at least.
constexpr size_t kModelTrialsMin = 3;

// The history as the model sees it.
struct Split {
  std::vector<const FinishedTrial*> ranked;  // Finite values, the best first; at most `kept`.
  size_t good = 0;                           // How many of `ranked` are good.
  std::vector<const FinishedTrial*> others;  // By number; failed ones and those too old left out.
};

bool IsBetter(const FinishedTrial* a, const FinishedTrial* b) {
  return a->value != b->value ? a->value < b->value : a->number < b->number;
}

bool IsOlder(const FinishedTrial* a, const FinishedTrial* b) { return a->number < b->number; }

// The number of good trials. Equal values are on one side as far as `good_max` allows.
size_t GoodCount(const std::vector<const FinishedTrial*>& ranked, size_t finished,
                 const TpeOptions& options) {
  const double part = std::ceil(options.good_fraction * static_cast<double>(finished) - 1e-9);
  const size_t most = std::min(options.good_max, ranked.size() - 1);
  size_t good = std::min(std::max(static_cast<size_t>(part), options.good_min), most);
  while (good < most && ranked[good]->value == ranked[good - 1]->value) ++good;
  return good;
}

// Keeps the first `count` in order; in time that grows with the length of the list, unless most of
// it is kept.
template <class Order>
void KeepFirst(std::vector<const FinishedTrial*>& trials, size_t count, Order order) {
  if (trials.size() > count) {
    std::nth_element(trials.begin(), trials.begin() + static_cast<ptrdiff_t>(count), trials.end(),
                     order);
    trials.resize(count);
  }
  std::sort(trials.begin(), trials.end(), order);
}

Split SplitOf(const std::vector<FinishedTrial>& finished, size_t kept, const TpeOptions& options) {
  Split split;
  std::vector<const FinishedTrial*> newest;
  for (const FinishedTrial& trial : finished) {
    newest.push_back(&trial);
    if (std::isfinite(trial.value)) split.ranked.push_back(&trial);
  }
  const auto [least, most] =
      std::minmax_element(split.ranked.begin(), split.ranked.end(), IsBetter);
  if (split.ranked.size() < kModelTrialsMin || (*least)->value == (*most)->value) return split;
  KeepFirst(split.ranked, std::max(kept, options.good_max + 1), IsBetter);
  split.good = GoodCount(split.ranked, finished.size(), options);

  KeepFirst(newest, options.newest_max,
            [](const FinishedTrial* a, const FinishedTrial* b) { return IsOlder(b, a); });
  const uint64_t newest_from = newest.empty() ? UINT64_MAX : newest.back()->number;
  split.others = std::move(newest);
  for (size_t i = 0; i < std::min(split.ranked.size(), options.best_max); ++i)
    if (split.ranked[i]->number < newest_from) split.others.push_back(split.ranked[i]);
  // Out go the good ones: what is no worse than the last of them.
  const FinishedTrial* last = split.ranked[split.good - 1];
  std::erase_if(split.others, [&](const FinishedTrial* trial) {
    return std::isfinite(trial->value) && !IsBetter(last, trial);
  });
  std::sort(split.others.begin(), split.others.end(), IsOlder);
  return split;
}

// ln(count + 0.5) - ln(rank - 0.5), for the 0-based rank.
double RankWeight(size_t count, size_t rank) {
  return Log(static_cast<double>(count) + 0.5) - Log(static_cast<double>(rank) + 0.5);
}

// By rank, with a sum of their number; trials of one value share their weights.
std::vector<WeightedPoint> GoodPoints(const Split& split, const TpeOptions& options) {
  std::vector<double> weights(split.good);
  double total = 0;
  for (size_t i = 0; i < split.good; ++i) {
    weights[i] = Exp(options.rank_power * Log(RankWeight(split.good, i)));
    total += weights[i];
  }
  std::vector<WeightedPoint> points;
  for (size_t from = 0; from < split.good;) {
    size_t to = from;
    double sum = 0;
    while (to < split.good && split.ranked[to]->value == split.ranked[from]->value)
      sum += weights[to++];
    const double each = sum / static_cast<double>(to - from);
    for (; from < to; ++from)
      points.push_back(
          {&split.ranked[from]->point, each * static_cast<double>(split.good) / total});
  }
  return points;
}

std::vector<WeightedPoint> OtherPoints(const Split& split, const TpeOptions& options) {
  const size_t count = split.others.size();
  const size_t fading = count - std::min(count, options.fresh_trials);
  const double least = 1.0 / static_cast<double>(std::max<size_t>(count, 1));
  std::vector<WeightedPoint> points;
  for (size_t i = 0; i < count; ++i) {
    double weight = 1;
    if (i < fading && fading > 1)
      weight = least + (1 - least) * static_cast<double>(i) / static_cast<double>(fading - 1);
    points.push_back({&split.others[i]->point, weight});
  }
  return points;
}

// The damped correlation of the best trials on the numeric axes, by rows.
std::vector<double> Correlation(const Split& split, const std::vector<size_t>& axes,
                                const TpeOptions& options) {
  const size_t d = axes.size();
  const double wanted = options.correlation_trials * static_cast<double>(d);
  const size_t count =
      std::min(split.ranked.size(), std::max(split.good, static_cast<size_t>(wanted)));
  std::vector<double> weights(count), mean(d, 0), matrix(d * d, 0);
  double total = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    weights[i] = RankWeight(count, i);
    total += weights[i];
    squares += weights[i] * weights[i];
    for (size_t a = 0; a < d; ++a) mean[a] += weights[i] * split.ranked[i]->point[axes[a]];
  }
  for (double& each : mean) each /= total;
  for (size_t i = 0; i < count; ++i) {
    const Point& point = split.ranked[i]->point;
    for (size_t a = 0; a < d; ++a) {
      const double scaled = weights[i] / total * (point[axes[a]] - mean[a]);
      for (size_t b = 0; b <= a; ++b) matrix[a * d + b] += scaled * (point[axes[b]] - mean[b]);
    }
  }
  const double effective = total * total / squares;
  const double damping =
      effective / (effective + options.correlation_damping * static_cast<double>(d));
  std::vector<double> deviation(d);
  for (size_t a = 0; a < d; ++a) deviation[a] = std::sqrt(matrix[a * d + a]);
  for (size_t a = 0; a < d; ++a) {
    for (size_t b = 0; b < a; ++b) {
      const double scale = deviation[a] * deviation[b];
      const double value = scale > 0 ? damping * matrix[a * d + b] / scale : 0;
      matrix[a * d + b] = matrix[b * d + a] = value;
    }
    matrix[a * d + a] = 1;
  }
  return matrix;
}

TpeAnswer Untaken(TpeAnswer answer, const Taken& taken, Rng& rng) {
  answer.repeated = !taken.Avoid(answer.point, rng);
  return answer;
}

size_t StartupTrials(size_t axes, const TpeOptions& options) {
  return options.startup_trials > 0 ? options.startup_trials : std::clamp<size_t>(axes, 8, 50);
}

// How many of the best the model looks at: for the other density and for the correlation.
size_t RankedMax(size_t axes, const TpeOptions& options) {
  const double correlated =
      options.correlation_trials * static_cast<double>(std::min(axes, options.correlated_axes_max));
  return std::max(options.best_max, static_cast<size_t>(correlated));
}

Mixture GoodMixture(const Encoding& encoding, const Split& split, uint64_t number,
                    const TpeOptions& options) {
  Mixture good(encoding, GoodPoints(split, options),
               {.factor = options.good_bandwidth,
                .exponent = 0.5,
                .width_min = options.good_bandwidth_min,
                .cell_width_min = options.cell_bandwidth,
                .uniform_weight = options.good_prior,
                .spread_prior = options.spread_prior,
                .category_prior = options.category_prior});
  const std::vector<size_t> numeric = Mixture::SteadyNumericAxes(encoding);
  if (number % 2 == 0 && numeric.size() > 1 && numeric.size() <= options.correlated_axes_max)
    good.Correlate(Correlation(split, numeric, options));
  return good;
}

Mixture OtherMixture(const Encoding& encoding, const Split& split, const TpeOptions& options) {
  return Mixture(encoding, OtherPoints(split, options),
                 {.factor = options.other_bandwidth,
                  .exponent = 1.0 / (static_cast<double>(encoding.axes().size()) + 4),
                  .width_min = options.other_bandwidth_min,
                  .cell_width_min = options.cell_bandwidth,
                  .uniform_weight = options.other_prior,
                  .spread_prior = options.spread_prior,
                  .category_prior = options.category_prior});
}

}  // namespace

std::optional<TpeAnswer> SuggestTpe(const Encoding& encoding, const Observations& observations,
                                    uint64_t seed, uint64_t number, const TpeOptions& options,
                                    const GiveUp& give_up) {
  Rng rng(seed, number);
  const Taken taken(encoding, observations);
  const size_t axes = encoding.axes().size();
  const size_t known = observations.finished.size() + observations.in_flight.size();
  Split split;
  if (axes > 0 && known >= StartupTrials(axes, options))
    split = SplitOf(observations.finished, RankedMax(axes, options), options);
  if (split.good == 0 || split.others.empty()) {  // Too few trials, or no differences.
    TpeAnswer start{encoding.Snap(ScrambledSobol(seed, number, axes)), false, false};
    return Untaken(std::move(start), taken, rng);
  }
  const Mixture good = GoodMixture(encoding, split, number, options);
  const Mixture other = OtherMixture(encoding, split, options);
  std::vector<double> scratch;
  TpeAnswer best;
  double best_score = -HUGE_VAL;
  bool is_free = false;
  for (size_t i = 0; i < options.candidates; ++i) {
    if (give_up && give_up()) return std::nullopt;
    Point candidate = good.Draw(rng, options.candidate_spread);
    const double score = good.LogDensity(candidate, scratch) -
                         options.other_exponent * other.LogDensity(candidate, scratch);
    if (is_free && score <= best_score) continue;
    if (taken.Has(candidate)) {
      if (best.point.empty()) best.point = std::move(candidate);
      continue;
    }
    is_free = true;
    best_score = score;
    best.point = std::move(candidate);
  }
  return Untaken(std::move(best), taken, rng);
}

}  // namespace rt
