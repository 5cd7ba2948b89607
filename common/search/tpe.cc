#include "common/search/tpe.h"

#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "common/search/branches.h"
#include "common/search/elementary.h"
#include "common/search/mixture.h"
#include "common/search/noise.h"
#include "common/search/sobol.h"
#include "common/search/taken.h"

namespace rt {
namespace {

// Finite values that a model needs at least.
constexpr size_t kModelTrialsMin = 3;
// A branch may have so small a part of all configurations that random points miss it.
constexpr int kBranchDrawsMax = 200;
constexpr size_t kDrawsPerCandidateMax = 4;
// Every so many trials, the search draws a few random points and proposes one in a branch that has
// no trial yet. More draws find smaller branches.
constexpr uint64_t kUnseenEvery = 8;
constexpr int kUnseenDrawsMax = 16;

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

Split SplitOf(const std::vector<const FinishedTrial*>& finished, size_t kept,
              const TpeOptions& options) {
  Split split;
  std::vector<const FinishedTrial*> newest = finished;
  for (const FinishedTrial* trial : finished)
    if (std::isfinite(trial->value)) split.ranked.push_back(trial);
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

// The branch that a proposal stays in, by its axes.
struct Scope {
  const std::vector<bool>* branch = nullptr;      // Null: any.
  const std::vector<bool>* model_axes = nullptr;  // The branch of the trials; null: of all.
};

Mixture GoodMixture(const Encoding& encoding, const Split& split, const Scope& scope,
                    uint64_t number, const TpeOptions& options) {
  Mixture good(encoding, GoodPoints(split, options),
               {.factor = options.good_bandwidth,
                .exponent = 0.5,
                .width_min = options.good_bandwidth_min,
                .cell_width_min = options.cell_bandwidth,
                .uniform_weight = options.good_prior,
                .spread_prior = options.spread_prior,
                .category_prior = options.category_prior},
               scope.model_axes);
  const std::vector<size_t> numeric = Mixture::SteadyNumericAxes(encoding, scope.model_axes);
  if (number % 2 == 0 && numeric.size() > 1 && numeric.size() <= options.correlated_axes_max)
    good.Correlate(Correlation(split, numeric, options));
  return good;
}

Mixture OtherMixture(const Encoding& encoding, const Split& split, const Scope& scope,
                     const TpeOptions& options) {
  const std::vector<bool>* branch = scope.model_axes;
  const auto axes = branch == nullptr ? static_cast<ptrdiff_t>(encoding.axes().size())
                                      : std::count(branch->begin(), branch->end(), true);
  return Mixture(encoding, OtherPoints(split, options),
                 {.factor = options.other_bandwidth,
                  .exponent = 1.0 / (static_cast<double>(axes) + 4),
                  .width_min = options.other_bandwidth_min,
                  .cell_width_min = options.cell_bandwidth,
                  .uniform_weight = options.other_prior,
                  .spread_prior = options.spread_prior,
                  .category_prior = options.category_prior},
                 branch);
}

// The newest and the best trials.
std::vector<const FinishedTrial*> KeptOf(const std::vector<FinishedTrial>& finished,
                                         const TpeOptions& options) {
  std::vector<const FinishedTrial*> kept, best;
  for (const FinishedTrial& trial : finished) kept.push_back(&trial);
  if (kept.size() <= options.newest_max + options.best_max) return kept;
  for (const FinishedTrial* trial : kept)
    if (std::isfinite(trial->value)) best.push_back(trial);
  KeepFirst(kept, options.newest_max,
            [](const FinishedTrial* a, const FinishedTrial* b) { return IsOlder(b, a); });
  KeepFirst(best, options.best_max, IsBetter);
  const uint64_t newest_from = kept.back()->number;
  for (const FinishedTrial* trial : best)
    if (trial->number < newest_from) kept.push_back(trial);
  return kept;
}

Point RandomPoint(const Encoding& encoding, Rng& rng) {
  Point point(encoding.axes().size());
  for (double& coordinate : point) coordinate = rng.Uniform();
  return encoding.Snap(std::move(point));
}

// Whether the branch has no real axis, so that two proposals in it may be equal.
bool IsDiscrete(const Encoding& encoding, const std::vector<bool>& branch) {
  for (size_t i = 0; i < branch.size(); ++i)
    if (branch[i] && encoding.axes()[i].kind() == Axis::Kind::kReal) return false;
  return true;
}

// The best of the candidates; nullopt: given up. With a branch its point may be empty: no candidate
// is in the branch and free.
std::optional<TpeAnswer> BestCandidate(const Encoding& encoding, const Split& split,
                                       const Scope& scope, const Taken& taken, uint64_t number,
                                       Rng& rng, const TpeOptions& options, const GiveUp& give_up) {
  const Mixture good = GoodMixture(encoding, split, scope, number, options);
  const Mixture other = OtherMixture(encoding, split, scope, options);
  const bool stays = scope.branch != nullptr;
  const bool is_discrete = stays && IsDiscrete(encoding, *scope.branch);
  std::vector<double> scratch;
  TpeAnswer best;
  double best_score = -HUGE_VAL;
  bool is_free = false;
  size_t draws = options.candidates * (stays ? kDrawsPerCandidateMax : 1);
  for (size_t compared = 0; compared < options.candidates && draws > 0; --draws) {
    if (give_up && give_up()) return std::nullopt;
    Point candidate = good.Draw(rng, options.candidate_spread);
    if (stays && encoding.Existing(candidate) != *scope.branch) continue;
    ++compared;
    const double score = good.LogDensity(candidate, scratch) -
                         options.other_exponent * other.LogDensity(candidate, scratch);
    if (is_free && score <= best_score) continue;
    if (is_discrete ? taken.IsOfTrial(candidate) : taken.Has(candidate)) {
      if (!stays && best.point.empty()) best.point = std::move(candidate);
      continue;
    }
    is_free = true;
    best_score = score;
    best.point = std::move(candidate);
  }
  return best;
}

// A random point of the branch that no trial has; nullopt: none was found.
std::optional<Point> FreePoint(const Encoding& encoding, const std::vector<bool>& branch,
                               const Taken& taken, Rng& rng) {
  for (int draw = 0; draw < kBranchDrawsMax; ++draw) {
    Point point = RandomPoint(encoding, rng);
    if (encoding.Existing(point) == branch && !taken.IsOfTrial(point)) return point;
  }
  return std::nullopt;
}

// A random point of a branch that no trial was in; nullopt: none was found.
std::optional<Point> UnseenPoint(const Encoding& encoding, const std::vector<Branch>& branches,
                                 Rng& rng) {
  for (int draw = 0; draw < kUnseenDrawsMax; ++draw) {
    Point point = RandomPoint(encoding, rng);
    const std::vector<bool> existing = encoding.Existing(point);
    const auto is_here = [&](const Branch& branch) { return branch.axes == existing; };
    if (std::none_of(branches.begin(), branches.end(), is_here)) return point;
  }
  return std::nullopt;
}

// A proposal in a branch that is chosen first; nullopt: given up. Its point is empty where no
// branch has a configuration that is free. `whole` is of the trials of all branches.
std::optional<TpeAnswer> BestOfBranch(const Encoding& encoding, const std::vector<Branch>& branches,
                                      const Split& whole, const Taken& taken, uint64_t number,
                                      Rng& rng, const TpeOptions& options, const GiveUp& give_up) {
  if (number % kUnseenEvery == 0)
    if (std::optional<Point> point = UnseenPoint(encoding, branches, rng))
      return TpeAnswer{*std::move(point), false, false};
  for (const Branch* branch : InOrderOfChoice(branches, options.branch_exploration)) {
    Scope scope{.branch = &branch->axes};
    Split own;
    if (branch->finished.size() >= options.branch_trials)
      own = SplitOf(branch->finished, RankedMax(encoding.axes().size(), options), options);
    const bool has_model = own.good > 0 && !own.others.empty();
    if (has_model) scope.model_axes = &branch->axes;
    std::optional<TpeAnswer> best = BestCandidate(encoding, has_model ? own : whole, scope, taken,
                                                  number, rng, options, give_up);
    if (!best.has_value() || !best->point.empty()) return best;
    if (std::optional<Point> point = FreePoint(encoding, branch->axes, taken, rng))
      return TpeAnswer{*std::move(point), false, false};
  }
  return TpeAnswer{};
}

}  // namespace

TpeOptions TpeDefaults(uint32_t version) {
  TpeOptions options;
  if (version >= 2) options.branch_exploration = 3;
  if (version >= 3) options.smoothing = 0.11;
  return options;
}

std::optional<TpeAnswer> SuggestTpe(const Encoding& encoding, const Observations& observations,
                                    uint64_t seed, uint64_t number, const TpeOptions& options,
                                    const GiveUp& give_up) {
  Rng rng(seed, number);
  const Taken taken(encoding, observations);
  const size_t axes = encoding.axes().size();
  const size_t known = observations.finished.size() + observations.in_flight.size();
  const bool has_branches = options.branch_exploration > 0 && encoding.HasConditions();
  const bool is_smooth =
      options.smoothing > 0 && HasNoise(encoding, observations.finished, options.smoothing);
  std::vector<FinishedTrial> smooth;
  if (is_smooth)
    smooth =
        WithSmoothValues(encoding, observations.finished, options.newest_max, options.smoothing);
  const std::vector<FinishedTrial>& results = is_smooth ? smooth : observations.finished;
  std::vector<const FinishedTrial*> finished;
  if (has_branches) finished = KeptOf(results, options);
  else
    for (const FinishedTrial& trial : results) finished.push_back(&trial);
  Split split;
  if (axes > 0 && known >= StartupTrials(axes, options))
    split = SplitOf(finished, RankedMax(axes, options), options);
  const auto sobol = [&] {
    return TpeAnswer{encoding.Snap(ScrambledSobol(seed, number, axes)), false, false};
  };
  if (split.good == 0 || split.others.empty())  // Too few trials, or no differences.
    return Untaken(sobol(), taken, rng);
  std::optional<TpeAnswer> best;
  std::vector<Branch> branches;
  if (has_branches) branches = BranchesOf(encoding, finished, observations.in_flight);
  if (has_branches && branches.size() * options.branch_trials <= known)
    best = BestOfBranch(encoding, branches, split, taken, number, rng, options, give_up);
  else best = BestCandidate(encoding, split, {}, taken, number, rng, options, give_up);
  if (!best.has_value()) return std::nullopt;
  return Untaken(best->point.empty() ? sobol() : *std::move(best), taken, rng);
}

}  // namespace rt
