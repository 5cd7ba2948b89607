#include "common/search/cma.h"

#include <algorithm>
#include <cmath>

#include "common/search/elementary.h"
#include "common/search/mixture.h"
#include "common/search/sobol.h"
#include "common/search/tpe.h"

namespace rt {
namespace {

// Streams of draws apart from those of proposals, which are (seed, number).
constexpr uint64_t kGenerationStream = 0x636d615f67656e21, kRestartStream = 0x636d615f72657321;
// Finite values that the strategy begins with at least.
constexpr size_t kStartValuesMin = 4;
constexpr size_t kPopulationMax = 200;
// A generation ranks this many times the population that is usual for CMA-ES: most of its points
// are ranked by the model, which costs no trial.
constexpr size_t kPopulationFactor = 4;
// Trials of a generation while a model ranks the others. They become fewer when the order that the
// model expected agrees with the values, and more when it does not.
constexpr double kGenerationStart = 4, kGenerationMin = 2, kGenerationStep = 1.3;
constexpr double kGoodOrder = 0.7, kBadOrder = 0.3;       // Kendall's tau,
constexpr size_t kOrderTrials = 10, kOrderTrialsMin = 4;  // of the newest trials.
// A distribution that is smaller than this has found its minimum.
constexpr double kReachMin = 1e-9;
// With more axes than this the strategy begins in the middle of the box: points all over it are
// many, and far from each other and from the minimum.
constexpr size_t kSpreadAxesMax = 10, kStartupInMiddle = 8;
constexpr double kMiddleSigma = 1.0 / 3;  // Its deviation there, in units of the option.
constexpr double kMiddleReach = 1.5;      // Points of that distribution are not farther than this.
// Coordinates of a configuration differ by the rounding of its values.
constexpr double kSamePlace = 1e-9;
constexpr size_t kRestartCandidates = 20;
constexpr double kRestartSigma = 0.25, kLnRestartFactor = -1.2039728043259361;  // ln 0.3
// Points that are compared for a proposal: this times the root of the number of axes.
constexpr double kCandidates = 30;
// Of the trials in flight, the nearest that the model is told of.
constexpr size_t kInFlightMax = 50;
// The least deviation where an axis has steps, in widths of the mean's cell: one draw in 20 leaves
// the cell.
constexpr double kCellDeviation = 0.25;

size_t UsualPopulation(size_t axes) {
  return 4 + static_cast<size_t>(3 * Log(static_cast<double>(std::max<size_t>(axes, 1))));
}

double SquaredDistance(const Point& a, const Point& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Kendall's tau: 1 when all pairs have the same order, -1 when none has.
double OrderOf(const std::deque<std::pair<double, double>>& pairs) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (size_t j = i + 1; j < pairs.size(); ++j) {
      const bool is_less = pairs[i].first < pairs[j].first;
      const bool is_equal = pairs[i].first == pairs[j].first || pairs[i].second == pairs[j].second;
      if (!is_equal) sum += is_less == (pairs[i].second < pairs[j].second) ? 1 : -1;
      ++count;
    }
  }
  return sum / count;
}

}  // namespace

CmaEs::CmaEs(const Encoding& encoding, uint64_t seed, const CmaOptions& options)
    : encoding_(encoding), seed_(seed), options_(options),
      numeric_(Mixture::SteadyNumericAxes(encoding)),
      usual_population_(UsualPopulation(numeric_.size())), evolution_(numeric_.size()),
      surrogate_(numeric_.size()) {
  Forget();
}

void CmaEs::Forget() {
  evaluated_.clear();
  numbers_.clear();
  generation_.clear();
  predictions_.clear();
  evolution_ = Evolution(numeric_.size());
  surrogate_ = Surrogate(numeric_.size());
  has_surrogate_ = is_started_ = false;
  surrogate_at_ = 0;
  generations_ = restarts_ = 0;
  generation_size_ = kGenerationStart;
  best_ = HUGE_VAL;
  since_better_ = 0;
}

Point CmaEs::NumericOf(const Point& point) const {
  Point numeric;
  for (const size_t axis : numeric_) numeric.push_back(point[axis]);
  return numeric;
}

Point CmaEs::Snapped(Point numeric) const {
  for (size_t i = 0; i < numeric.size(); ++i)
    numeric[i] = encoding_.axes()[numeric_[i]].Snap(numeric[i]);
  return numeric;
}

std::vector<double> CmaEs::LeastDeviations() const {
  std::vector<double> least(numeric_.size(), 0);
  for (size_t i = 0; i < least.size(); ++i) {
    const Axis& axis = encoding_.axes()[numeric_[i]];
    if (axis.kind() == Axis::Kind::kSteps)
      least[i] = kCellDeviation * axis.Width(axis.CellOf(evolution_.mean()[i]));
  }
  return least;
}

bool CmaEs::HasModel() const { return evaluated_.size() <= options_.model_trials; }

size_t CmaEs::GenerationSize() const {
  if (!HasModel()) return evolution_.population();
  return std::min(static_cast<size_t>(std::lround(generation_size_)), evolution_.population());
}

bool CmaEs::Continues(const std::vector<const FinishedTrial*>& ordered) const {
  if (ordered.size() < numbers_.size()) return false;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const FinishedTrial& trial = *ordered[i];
    const EvaluatedPoint& known = evaluated_[i];
    const bool both_bad = !std::isfinite(trial.value) && !std::isfinite(known.value);
    if (trial.number != numbers_[i] || !(trial.value == known.value || both_bad)) return false;
    for (size_t k = 0; k < numeric_.size(); ++k)
      if (trial.point[numeric_[k]] != known.point[k]) return false;
  }
  return true;
}

bool CmaEs::CatchUp(const Observations& seen, const GiveUp& give_up) {
  const std::vector<const FinishedTrial*> ordered = ByEnd(seen);
  if (!Continues(ordered)) Forget();
  for (size_t next = numbers_.size();; ++next) {
    if (give_up && give_up()) return false;
    const bool lacks_model = is_started_ && !has_surrogate_ && HasModel();
    if (lacks_model && !FitSurrogate(give_up)) return false;
    const bool is_full = is_started_ && generation_.size() >= GenerationSize();
    if (is_full && !EndGeneration(give_up)) return false;
    if (next == ordered.size()) return true;
    Take(*ordered[next]);
  }
}

void CmaEs::Take(const FinishedTrial& trial) {
  evaluated_.push_back({NumericOf(trial.point), trial.value});
  numbers_.push_back(trial.number);
  if (!is_started_) return TryToStart();
  const bool is_finite = std::isfinite(trial.value);
  ++since_better_;
  if (is_finite && trial.value < best_) {
    best_ = trial.value;
    since_better_ = 0;
  }
  generation_.push_back(evaluated_.size() - 1);
  if (!is_finite || !has_surrogate_ || !HasModel()) return;
  predictions_.emplace_back(surrogate_.MeanAt(evaluated_.back().point), trial.value);
  if (predictions_.size() > kOrderTrials) predictions_.pop_front();
}

bool CmaEs::BeginsInMiddle() const {
  return options_.begins_in_middle && numeric_.size() > kSpreadAxesMax;
}

size_t CmaEs::StartupTrials() const {
  if (options_.startup_trials > 0) return options_.startup_trials;
  if (BeginsInMiddle()) return kStartupInMiddle;
  return std::clamp<size_t>(encoding_.axes().size(), 6, 50);
}

// Begins at the best point, or in the middle, once there are enough results and differences
// between them.
void CmaEs::TryToStart() {
  if (evaluated_.size() < StartupTrials()) return;
  size_t finite = 0, best = 0;
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (size_t i = 0; i < evaluated_.size(); ++i) {
    const double value = evaluated_[i].value;
    if (!std::isfinite(value)) continue;
    ++finite;
    if (value < least) best = i;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (finite < kStartValuesMin || !(least < most)) return;
  const size_t population = options_.population > 0
                                ? std::max(options_.population, kCmaPopulationMin)
                                : kPopulationFactor * usual_population_;
  Point mean = evaluated_[best].point;
  double sigma = options_.sigma;
  if (BeginsInMiddle()) {
    // A best point from elsewhere was given, and is better than the middle.
    sigma *= kMiddleSigma;
    const Point middle(numeric_.size(), 0.5);
    const double usual = sigma * std::sqrt(static_cast<double>(numeric_.size()));
    if (SquaredDistance(mean, middle) <= kMiddleReach * kMiddleReach * usual * usual) mean = middle;
  }
  evolution_.Start(mean, sigma, population);
  evolution_.KeepDeviations(LeastDeviations());
  is_started_ = true;
  best_ = least;
}

bool CmaEs::FitSurrogate(const GiveUp& give_up) {
  Surrogate fitted = surrogate_;
  const bool is_fitted = fitted.Fit(evolution_, evaluated_, give_up);
  if (!is_fitted && give_up && give_up()) return false;
  if (is_fitted) surrogate_ = std::move(fitted);
  has_surrogate_ = has_surrogate_ || is_fitted;
  if (is_fitted) surrogate_at_ = evaluated_.size();
  return true;
}

void CmaEs::AdaptGenerationSize() {
  if (predictions_.size() < kOrderTrialsMin) return;
  const double order = OrderOf(predictions_);
  const double most = static_cast<double>(usual_population_);
  if (order > kGoodOrder)
    generation_size_ = std::max(kGenerationMin, generation_size_ / kGenerationStep);
  else if (order < kBadOrder) generation_size_ = std::min(most, generation_size_ * kGenerationStep);
}

// The generation's trials, and what the distribution would draw besides, the best first.
std::vector<Point> CmaEs::Ranked() const {
  const size_t population = evolution_.population();
  const size_t evaluated = std::min(generation_.size(), population);
  const bool by_model = HasModel() && has_surrogate_;
  const size_t drawn = by_model ? population - evaluated : 0;
  std::vector<std::pair<double, size_t>> order;
  std::vector<Point> points;
  Rng rng(seed_ ^ kGenerationStream, generations_);
  for (size_t i = 0; i < drawn; ++i) points.push_back(evolution_.Draw(rng));
  for (size_t i = generation_.size() - evaluated; i < generation_.size(); ++i)
    points.push_back(evaluated_[generation_[i]].point);
  for (size_t i = 0; i < points.size(); ++i) {
    double value = drawn > 0 ? surrogate_.MeanAt(Snapped(points[i]))
                             : evaluated_[generation_[generation_.size() - evaluated + i]].value;
    if (!std::isfinite(value)) value = HUGE_VAL;
    order.emplace_back(value, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Point> ranked;
  ranked.reserve(order.size());
  for (const auto& [value, i] : order) ranked.push_back(points[i]);
  return ranked;
}

bool CmaEs::EndGeneration(const GiveUp& give_up) {
  if (HasModel()) {
    if (!FitSurrogate(give_up)) return false;
    AdaptGenerationSize();
  }
  const std::vector<Point> ranked = Ranked();
  generation_.clear();
  if (ranked.size() < evolution_.population()) return true;  // No model, and too few results.
  evolution_.Update(ranked);
  evolution_.KeepDeviations(LeastDeviations());
  ++generations_;
  const size_t stall =
      options_.stall_trials > 0 ? options_.stall_trials : 40 + 10 * numeric_.size();
  if (evolution_.Reach() < kReachMin || since_better_ > stall) RestartElsewhere();
  return true;
}

// Begins far from all that was evaluated, every second time with a larger population.
void CmaEs::RestartElsewhere() {
  Point farthest;
  double distance = -1;
  for (size_t i = 0; i < kRestartCandidates; ++i) {
    const uint64_t number = restarts_ * kRestartCandidates + i;
    Point candidate = ScrambledSobol(Mix64(seed_ ^ kRestartStream), number, numeric_.size());
    double nearest = HUGE_VAL;
    for (const EvaluatedPoint& known : evaluated_)
      nearest = std::min(nearest, SquaredDistance(known.point, candidate));
    if (nearest <= distance) continue;
    distance = nearest;
    farthest = std::move(candidate);
  }
  Rng rng(seed_ ^ kRestartStream, restarts_++);
  const double sigma = kRestartSigma * Exp(2 * rng.Uniform() * kLnRestartFactor);
  size_t population = evolution_.population();
  if (restarts_ % 2 == 1 && 2 * population < kPopulationMax) population *= 2;
  evolution_.Start(farthest, sigma, population);
  evolution_.KeepDeviations(LeastDeviations());
  predictions_.clear();
  best_ = HUGE_VAL;
  since_better_ = 0;
}

// The candidate that promises most; `base` has the coordinates of the other axes.
Point CmaEs::Best(const Observations& seen, const Point& base, const Taken& taken, Rng& rng) const {
  const auto complete = [&](const Point& numeric) {
    Point point = base;
    for (size_t i = 0; i < numeric_.size(); ++i) point[numeric_[i]] = numeric[i];
    return encoding_.HasConditions() ? encoding_.Snap(std::move(point)) : point;
  };
  std::vector<std::pair<double, Point>> nearest;
  for (const FlyingTrial& trial : seen.in_flight) {
    Point point = NumericOf(trial.point);
    double squares = 0;
    for (const double each : evolution_.Whiten(point)) squares += each * each;
    nearest.emplace_back(squares, std::move(point));
  }
  std::sort(nearest.begin(), nearest.end());
  std::vector<Point> in_flight;
  for (auto& [distance, point] : nearest)
    if (in_flight.size() < kInFlightMax) in_flight.push_back(std::move(point));
  Surrogate model = surrogate_;
  const bool is_current = surrogate_at_ == evaluated_.size() && in_flight.empty();
  const bool has_model = HasModel() && has_surrogate_ &&
                         (is_current || model.Condition(evolution_, evaluated_, in_flight));
  const double root = std::sqrt(static_cast<double>(numeric_.size()));
  const size_t candidates = has_model ? static_cast<size_t>(kCandidates * root) : 1;
  Point best;
  double best_score = -HUGE_VAL;
  for (size_t i = 0; i < candidates; ++i) {
    const Point numeric = Snapped(evolution_.Draw(rng));
    Point point = complete(numeric);
    if (best.empty()) best = point;
    if (taken.Has(point)) continue;
    const double score = has_model ? model.LogImprovementAt(numeric) : 0;
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(point);
  }
  return best;
}

// A Sobol point. Where the strategy begins in the middle: that, and then points that are spread
// round it as the strategy's first distribution is.
Point CmaEs::StartupPoint(const Observations& seen, uint64_t number) const {
  Point point = ScrambledSobol(seed_, number, encoding_.axes().size());
  if (!options_.begins_in_middle || is_started_ || numeric_.empty()) return point;
  const bool is_middle = !HasMiddle(seen);
  for (const size_t axis : numeric_) {
    const double spread = options_.sigma * kMiddleSigma * NormalQuantile(point[axis]);
    if (is_middle) point[axis] = 0.5;
    else if (BeginsInMiddle()) point[axis] = std::clamp(0.5 + spread, 0.0, 1.0);
  }
  return point;
}

bool CmaEs::HasMiddle(const Observations& seen) const {
  const Point middle = Snapped(Point(numeric_.size(), 0.5));
  const auto is_there = [&](const auto& trial) {
    for (size_t i = 0; i < numeric_.size(); ++i)
      if (std::abs(trial.point[numeric_[i]] - middle[i]) > kSamePlace) return false;
    return true;
  };
  return std::any_of(seen.finished.begin(), seen.finished.end(), is_there) ||
         std::any_of(seen.in_flight.begin(), seen.in_flight.end(), is_there);
}

std::optional<CmaAnswer> CmaEs::Suggest(const Observations& seen, uint64_t number,
                                        const GiveUp& give_up) {
  const size_t axes = encoding_.axes().size();
  if (!numeric_.empty() && !CatchUp(seen, give_up)) return std::nullopt;
  CmaAnswer answer{.point = encoding_.Snap(StartupPoint(seen, number)), .from_model = is_started_};
  Rng rng(seed_, number);
  const Taken taken(encoding_, seen);
  if (is_started_) {
    if (numeric_.size() < axes) {
      const std::optional<TpeAnswer> categories =
          SuggestTpe(encoding_, seen, seed_, number, {}, give_up);
      if (!categories.has_value()) return std::nullopt;
      answer.point = categories->point;
    }
    answer.point = Best(seen, answer.point, taken, rng);
  }
  answer.repeated = !taken.Avoid(answer.point, rng);
  return answer;
}

}  // namespace rt
