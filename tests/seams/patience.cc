#include "tests/seams/patience.h"

#include "common/base/strings.h"

namespace rt {
namespace {

class PatienceScheduler final : public Scheduler {
 public:
  const AlgorithmTable& table() const override {
    using Type = AlgorithmOption::Type;
    static const AlgorithmTable table{
        .kind = AlgorithmKind::kScheduler,
        .name = "patience",
        .version = 2,
        .meaning = "Pauses all trials but the best at one point of time",
        .options = {{.name = "clock",
                     .type = Type::kMetricName,
                     .default_value = "training_iteration",
                     .meaning = "The reported value that says the time"},
                    {.name = "at",
                     .default_value = 2.0,
                     .meaning = "The time at which trials are compared",
                     .lower = 0,
                     .is_open = true}},
        .needs_metric = true};
    return table;
  }
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t) const override {
    return {.time_attr = spec.scheduler.options.GetString("clock"),
            .milestones = {spec.scheduler.options.GetDouble("at")}};
  }
  RowVerdict OnRow(const ExperimentSpec& spec, const ScheduledTrial& trial,
                   const RowView& row) const override {
    const double at = spec.scheduler.options.GetDouble("at");
    const auto time = RowValue(row, spec.scheduler.options.GetString("clock"));
    const auto value = RowValue(row, spec.metric);
    if (!time || !value || *time < at || trial.recorded.contains(at)) return {};
    return {.milestone = at, .value = *value};
  }
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double value) const override {
    if (rung.values.empty()) return {};
    const bool is_best = spec.mode == Mode::kMin ? value < rung.values.front()
                                                 : value > rung.values.back();
    if (is_best) return {};
    return {TrialVerdict::Action::kPause, "waits at " + FormatDouble(rung.milestone)};
  }
  bool pauses_trials() const override { return true; }
  std::vector<uint32_t> OnTrialEnd(const ExperimentSpec&, uint32_t,
                                   const std::vector<uint32_t>& paused) const override {
    if (paused.empty()) return {};
    return {paused.front()};
  }
};

}  // namespace

const Scheduler& Patience() {
  static const PatienceScheduler scheduler;
  return scheduler;
}

}  // namespace rt
