#include "common/decide/median.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/strings.h"

namespace rt {
namespace {

constexpr char kPercentile[] = "percentile";

AlgorithmTable MakeMedianTable() {
  using Type = AlgorithmOption::Type;
  return {.kind = AlgorithmKind::kScheduler,
          .name = "median_stopping",
          .version = 1,
          .meaning = "Stops trials whose best value is worse than the median of the others' means",
          .options = {{.name = "time_attr",
                       .type = Type::kMetricName,
                       .default_value = "time_total_s",
                       .meaning = "The reported value in whose units the grace period is"},
                      {.name = "grace_period",
                       .default_value = 60.0,
                       .meaning = "No trial is stopped before this time, and means begin here",
                       .lower = 0},
                      {.name = "min_samples_required",
                       .type = Type::kInteger,
                       .default_value = 3,
                       .meaning = "No trial is stopped while fewer others have come as far",
                       .lower = 0,
                       .upper = 1e9},
                      {.name = "hard_stop",
                       .type = Type::kFlag,
                       .default_value = true,
                       .meaning = "Whether such a trial is stopped; else it is paused until no "
                                  "other trial waits, and then runs to its end"}},
          .needs_metric = true};
}

AlgorithmTable MakePercentileTable() {
  AlgorithmTable table = MakeMedianTable();
  table.name = "percentile_stopping";
  table.meaning = "A trial is stopped when its best value is not among the best part of the others";
  table.aliases = {"percentile"};
  table.options.push_back({.name = kPercentile,
                           .default_value = 25.0,
                           .meaning = "A trial continues while its best value reaches that of the "
                                      "best this many percent of the others",
                           .lower = 0,
                           .upper = 100});
  return table;
}

// The other trials of the experiment at time t, to which a trial is compared.
struct Others {
  uint64_t count = 0;  // Of the trials that have reached t.
  double threshold = NAN;  // Their median, or the percentile of the options.
};

// The value that the best `percent` of the values reach, by linear interpolation.
double ReachedBy(double percent, Mode mode, std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return NAN;
  if (mode == Mode::kMax) std::sort(values.begin(), values.end(), std::greater<>());
  else std::sort(values.begin(), values.end());
  const double place = static_cast<double>(values.size() - 1) * percent / 100;
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (values[below + 1] - values[below]) * (place - std::floor(place));
}

Others OthersAt(double t, const ExperimentSpec& spec, const ScheduledTrial& trial) {
  Others others;
  std::vector<double> means;
  for (const std::vector<CurvePoint>* curve : trial.others) {
    if (curve->empty() || curve->back().time < t) continue;
    ++others.count;
    means.push_back(MeanUpTo(t, *curve));
  }
  const Json* percent = spec.scheduler.options.Find(kPercentile);
  others.threshold = percent == nullptr
                         ? MedianOf(std::move(means))
                         : ReachedBy(percent->AsDouble(), spec.mode, std::move(means));
  return others;
}

// The rule compares with the median, or with a percentile where its table has that option.
class MedianScheduler final : public Scheduler {
 public:
  explicit MedianScheduler(AlgorithmTable table) : table_(std::move(table)) {}

  const AlgorithmTable& table() const override { return table_; }
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t) const override {
    return {.time_attr = spec.scheduler.options.GetString("time_attr")};
  }
  std::optional<double> CurvesFrom(const ExperimentSpec& spec) const override {
    return spec.scheduler.options.GetDouble("grace_period");
  }
  RowVerdict OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                   const RowView& row) const override {
    const Json& options = spec.scheduler.options;
    const std::optional<double> t = RowValue(row, trial.limits.time_attr);
    const bool has_value = RowValue(row, spec.metric).has_value();
    // A trial that was paused here runs to its end.
    if (!t || !has_value || !trial.best || !trial.recorded.empty()) return {};
    if (!(*t >= options.GetDouble("grace_period"))) return {};
    const Others others = OthersAt(*t, spec, trial);
    const auto needed = static_cast<uint64_t>(options.GetInt("min_samples_required"));
    if (others.count < needed) return {};
    const bool is_worse =
        spec.mode == Mode::kMax ? *trial.best < others.threshold : *trial.best > others.threshold;
    if (!is_worse) return {};
    if (!options.GetBool("hard_stop")) return {.milestone = *t, .value = *trial.best};
    return {.verdict = {TrialVerdict::Action::kStop,
                        "stopped by the " + Noun(spec) + " rule at " + FormatDouble(*t) +
                            ": its best value is " + FormatDouble(*trial.best) + ", and the " +
                            Noun(spec) + " of " + std::to_string(others.count) + " others is " +
                            FormatDouble(others.threshold)}};
  }
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double) const override {
    if (!rung.may_save || !rung.others_wait) return {};
    return {TrialVerdict::Action::kPause,
            "worse than the " + Noun(spec) + " of the other trials at " +
                FormatDouble(rung.milestone) + ", until no other trial waits"};
  }
  bool reviews_trials() const override { return true; }
  ReviewVerdict Review(const ExperimentSpec&, const SearchReview& review) const override {
    ReviewVerdict verdict;
    if (review.others_wait) return verdict;
    for (const PausedTrial& trial : review.paused) verdict.resumed.push_back(trial.number);
    return verdict;
  }

 private:
  static std::string Noun(const ExperimentSpec& spec) {
    return spec.scheduler.options.Find(kPercentile) == nullptr ? "median" : kPercentile;
  }

  const AlgorithmTable table_;
};

}  // namespace

const Scheduler& MedianStopping() {
  static const MedianScheduler scheduler(MakeMedianTable());
  return scheduler;
}

const Scheduler& PercentileStopping() {
  static const MedianScheduler scheduler(MakePercentileTable());
  return scheduler;
}

double MedianOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  return (values[half - 1] + values[half]) / 2;
}

}  // namespace rt
