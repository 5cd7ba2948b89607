#include "common/decide/asha.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/decide/rank_check.h"

namespace rt {
namespace {

// numpy.percentile with linear interpolation, down to its choice of formula for the last bit. The
// values in ascending order are at(0) to at(count - 1).
template <class At>
double Percentile(size_t count, At&& at, double fraction) {
  double position = static_cast<double>(count - 1) * fraction;
  size_t below = static_cast<size_t>(position);
  if (below + 1 >= count) return at(count - 1);
  double weight = position - static_cast<double>(below);
  double a = at(below), b = at(below + 1);
  return weight >= 0.5 ? b - (b - a) * (1 - weight) : a + (b - a) * weight;
}

// How likely each bracket is: a softmax over the brackets' rung counts.
std::vector<double> WeightsOf(const AshaOptions& options) {
  std::vector<double> weights;
  const double most = static_cast<double>(MilestonesOf(options.ladder, 0).size());
  for (int bracket = 0; bracket < options.brackets; ++bracket) {
    const auto count = static_cast<double>(MilestonesOf(options.ladder, bracket).size());
    weights.push_back(std::exp(count - most));
  }
  return weights;
}

Json WholeOrNumber(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 9e15;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

// The rungs of one bracket in which `left` trials begin: how many would reach each, when as many of
// those that come to a rung continue as `continuing` says. `work` grows by what they would train.
template <class Continuing>
Json PlannedRungs(const RungLadder& ladder, int bracket, bool is_bounded, double left,
                  const Continuing& continuing, double& work) {
  Json rungs = Json::MakeArray();
  double before = 0;
  for (double milestone : MilestonesOf(ladder, bracket)) {
    rungs.Append(Json::MakeObject(
        {{"milestone", WholeOrNumber(milestone)},
         {"trials", is_bounded ? WholeOrNumber(std::ceil(left)) : Json()}}));
    work += left * (milestone - before);
    before = milestone;
    left = continuing(left);
  }
  work += left * std::max(0.0, ladder.max_t - before);
  return rungs;
}

// Brackets are drawn from a stream of their own, so that they do not disturb the configurations.
constexpr uint64_t kBracketStream = 0x627261636b657421;

absl::Status CheckLadder(const Json& options, std::string_view path) {
  if (options.GetDouble("max_t") < options.GetDouble("grace_period"))
    return SpecError(std::string(path) + "/max_t", "must not be below grace_period");
  return absl::OkStatus();
}

class AshaScheduler final : public RungScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table = RungTable(
        "asha", "Asynchronous successive halving: at each rung the worst trials are stopped");
    return table;
  }
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double value) const override {
    if (rung.review != nullptr && IsMisleading(spec, *rung.review, rung.bracket, rung.milestone))
      return {};
    if (!AshaStops(ReductionFactor(spec), spec.mode, rung.values, value)) return {};
    return {TrialVerdict::Action::kStop, "stopped by ASHA at rung " + FormatDouble(rung.milestone)};
  }

 protected:
  std::optional<double> MilestoneAt(const ScheduledTrial& trial, double t) const override {
    return AshaMilestone(trial.limits.milestones, t, trial.recorded);
  }
};

}  // namespace

AlgorithmTable RungTable(std::string name, std::string meaning) {
  using Type = AlgorithmOption::Type;
  const AshaOptions defaults;
  return {.kind = AlgorithmKind::kScheduler,
          .name = std::move(name),
          .version = 1,
          .meaning = std::move(meaning),
          .options = {{.name = "time_attr",
                       .type = Type::kMetricName,
                       .default_value = defaults.time_attr,
                       .meaning = "The reported value in whose units the other options are"},
                      {.name = "max_t",
                       .default_value = defaults.ladder.max_t,
                       .meaning = "The time at which a trial has trained to its end",
                       .lower = 0,
                       .is_open = true},
                      {.name = "grace_period",
                       .default_value = defaults.ladder.grace_period,
                       .meaning = "The first rung: no trial is stopped before it",
                       .lower = 0,
                       .is_open = true},
                      {.name = "reduction_factor",
                       .default_value = defaults.ladder.reduction_factor,
                       .meaning = "Of the trials at a rung, one in this many continues; each rung "
                                  "is this many times later than the one before",
                       .lower = 1,
                       .is_open = true},
                      {.name = "brackets",
                       .type = Type::kInteger,
                       .default_value = defaults.brackets,
                       .meaning = "The number of brackets; each begins one rung later than the one "
                                  "before",
                       .lower = 1,
                       .upper = limits::kBracketsMax},
                      {.name = "stop_last_trials",
                       .type = Type::kFlag,
                       .default_value = defaults.stop_last_trials,
                       .meaning = "Whether a trial that reaches max_t is ended"},
                      {.name = "rank_check",
                       .type = Type::kFlag,
                       .default_value = defaults.rank_check,
                       .meaning = "Whether trials pass the first rungs while these rank them "
                                  "unlike the next ones"}},
          .needs_metric = true,
          .has_rungs = true,
          .check = CheckLadder};
}

uint32_t RungScheduler::BracketOf(const ExperimentSpec& spec, uint64_t seed,
                                  uint64_t number) const {
  Rng rng(seed ^ kBracketStream, number);
  return AshaBracket(AshaOptions::From(spec.scheduler), rng);
}

uint32_t RungScheduler::BracketCount(const ExperimentSpec& spec) const {
  return static_cast<uint32_t>(AshaOptions::From(spec.scheduler).brackets);
}

TrialLimits RungScheduler::LimitsOf(const ExperimentSpec& spec, uint32_t bracket) const {
  const AshaOptions options = AshaOptions::From(spec.scheduler);
  return {.time_attr = options.time_attr,
          .milestones = MilestonesOf(options.ladder, static_cast<int>(bracket)),
          .max_t = options.ladder.max_t,
          .ends_at_max_t = options.stop_last_trials};
}

RowVerdict RungScheduler::OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                                const RowView& row) const {
  const TrialLimits& limits = trial.limits;
  const std::optional<double> t = RowValue(row, limits.time_attr);
  const std::optional<double> value = RowValue(row, spec.metric);
  if (!t || !value) return {};
  if (limits.ends_at_max_t && *t >= *limits.max_t)
    return {.verdict = {TrialVerdict::Action::kComplete,
                        limits.time_attr + " reached max_t " + FormatDouble(*limits.max_t)}};
  return {.milestone = MilestoneAt(trial, *t), .value = *value};
}

bool RungScheduler::compares_rungs(const ExperimentSpec& spec) const {
  return AshaOptions::From(spec.scheduler).rank_check;
}

bool RungScheduler::IsMisleading(const ExperimentSpec& spec, const SearchReview& review,
                                 uint32_t bracket, double milestone) {
  if (!AshaOptions::From(spec.scheduler).rank_check) return false;
  return milestone < FirstTellingRung(RungsOf(review, bracket), ReductionFactor(spec));
}

double RungScheduler::ReductionFactor(const ExperimentSpec& spec) {
  return spec.scheduler.options.GetDouble("reduction_factor", RungLadder{}.reduction_factor);
}

SchedulePlan RungScheduler::PlanOf(const ExperimentSpec& spec,
                                   std::optional<uint64_t> trials) const {
  const AshaOptions asha = AshaOptions::From(spec.scheduler);
  SchedulePlan plan{.brackets = Json::MakeArray()};
  std::vector<double> shares = WeightsOf(asha);
  double sum = 0, work = 0;
  for (double share : shares) sum += share;
  for (int bracket = 0; bracket < asha.brackets; ++bracket) {
    const double share = shares[static_cast<size_t>(bracket)] / sum;
    const double begin = share * static_cast<double>(trials.value_or(0));
    const auto continuing = [&](double left) {
      return ContinuingOf(left, asha.ladder.reduction_factor);
    };
    Json rungs = PlannedRungs(asha.ladder, bracket, trials.has_value(), begin, continuing, work);
    plan.brackets.Append(
        Json::MakeObject({{"bracket", bracket}, {"share", share}, {"rungs", std::move(rungs)}}));
  }
  const double whole = static_cast<double>(trials.value_or(0)) * asha.ladder.max_t;
  if (whole > 0 && std::isfinite(whole)) plan.share_of_full = Json(work / whole);
  return plan;
}

const Scheduler& Asha() {
  static const AshaScheduler scheduler;
  return scheduler;
}

AshaOptions AshaOptions::From(const AlgorithmSpec& spec) {
  AshaOptions asha;
  const Json& options = spec.options;
  asha.time_attr = options.GetString("time_attr", asha.time_attr);
  asha.ladder.max_t = options.GetDouble("max_t", asha.ladder.max_t);
  asha.ladder.grace_period = options.GetDouble("grace_period", asha.ladder.grace_period);
  asha.ladder.reduction_factor =
      options.GetDouble("reduction_factor", asha.ladder.reduction_factor);
  asha.brackets = static_cast<int>(options.GetInt("brackets", asha.brackets));
  asha.stop_last_trials = options.GetBool("stop_last_trials", asha.stop_last_trials);
  asha.rank_check = options.GetBool("rank_check", asha.rank_check);
  return asha;
}

uint32_t AshaBracket(const AshaOptions& options, Rng& rng) {
  const std::vector<double> weights = WeightsOf(options);
  double sum = 0;
  for (double weight : weights) sum += weight;
  double draw = rng.Uniform() * sum;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (draw < weights[i]) return static_cast<uint32_t>(i);
    draw -= weights[i];
  }
  return static_cast<uint32_t>(weights.size() - 1);
}

std::optional<double> AshaMilestone(const std::vector<double>& milestones, double t,
                                    const std::set<double>& recorded) {
  if (std::isnan(t)) return std::nullopt;
  for (size_t i = milestones.size(); i-- > 0;) {
    if (t >= milestones[i] && !recorded.contains(milestones[i])) return milestones[i];
  }
  return std::nullopt;
}

std::optional<double> NewestMilestone(const ScheduledTrial& trial, double t) {
  if (std::isnan(t)) return std::nullopt;
  const std::vector<double>& all = trial.limits.milestones;
  const auto beyond = std::upper_bound(all.begin(), all.end(), t);
  if (beyond == all.begin()) return std::nullopt;
  const double reached = *(beyond - 1);
  if (!trial.recorded.empty() && *trial.recorded.rbegin() >= reached) return std::nullopt;
  return reached;
}

bool AshaStops(double reduction_factor, Mode mode, const std::vector<double>& values,
               double value) {
  if (values.empty() || std::isnan(value)) return false;
  const double fraction = 1 - 1 / reduction_factor;
  const size_t count = values.size();
  if (mode == Mode::kMax)
    return value < Percentile(count, [&](size_t i) { return values[i]; }, fraction);
  // Less is better: the same rule over the negated values, which ascend from the other end.
  return -value < Percentile(count, [&](size_t i) { return -values[count - 1 - i]; }, fraction);
}

}  // namespace rt
