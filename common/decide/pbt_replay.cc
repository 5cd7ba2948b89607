#include "common/decide/pbt_replay.h"

#include <algorithm>
#include <cmath>

#include "common/base/strings.h"

namespace rt {
namespace {

constexpr char kPolicy[] = "policy";

absl::Status CheckPolicy(const Json& options, std::string_view path) {
  const std::string where = std::string(path) + "/" + kPolicy;
  const char hint[] = "for example [{time: 10, config: {lr: 0.1}}]";
  double newest = 0;
  if (options.Find(kPolicy)->array().empty())
    return SpecError(where, "is the list of changes, at least one", hint);
  for (const Json& change : options.Find(kPolicy)->array()) {
    const double time = change.GetDouble("time", NAN);
    const Json* config = change.Find("config");
    if (!std::isfinite(time) || config == nullptr || !config->is_object())
      return SpecError(where, "each change has a time and a config", hint);
    if (!(time > newest)) return SpecError(where, "the times ascend, and are above 0", hint);
    newest = time;
  }
  return absl::OkStatus();
}

class PbtReplayScheduler final : public Scheduler {
 public:
  const AlgorithmTable& table() const override {
    using Type = AlgorithmOption::Type;
    static const AlgorithmTable table{
        .kind = AlgorithmKind::kScheduler,
        .name = "pbt_replay",
        .version = 1,
        .meaning =
            "Changes the configuration of a trial at recorded times, as population based "
            "training did",
        .options = {{.name = "time_attr",
                     .type = Type::kMetricName,
                     .default_value = "training_iteration",
                     .meaning = "The reported value in whose units the times are"},
                    {.name = kPolicy,
                     .type = Type::kPoints,
                     .default_value = Json::MakeArray(),
                     .meaning = "The changes: maps with a time and the config from then on"}},
        .changes_params = true,
        .check = CheckPolicy};
    return table;
  }
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t) const override {
    TrialLimits limits{.time_attr = spec.scheduler.options.GetString("time_attr")};
    for (const Json& change : spec.scheduler.options.Find(kPolicy)->array())
      limits.milestones.push_back(change.GetDouble("time"));
    return limits;
  }
  // The newest change that the row has reached.
  RowVerdict OnRow(const ExperimentSpec&, const ScheduledTrial& trial,
                   const RowView& row) const override {
    const std::optional<double> t = RowValue(row, trial.limits.time_attr);
    RowVerdict verdict;
    if (!t) return verdict;
    for (double time : trial.limits.milestones)
      if (time <= *t && (trial.recorded.empty() || *trial.recorded.rbegin() < time))
        verdict.milestone = time;
    verdict.value = *t;
    return verdict;
  }
  bool reviews_trials() const override { return true; }
  bool clones_trials() const override { return true; }
  bool waits_for_store() const override { return true; }
  // The trial saves and ends, so that the next configuration continues from this row.
  TrialVerdict AtMilestone(const ExperimentSpec&, const RungValues& rung, double) const override {
    if (!rung.may_save) return {};
    return {TrialVerdict::Action::kPause,
            "at " + FormatDouble(rung.milestone) +
                ", for its next configuration, until the store has its checkpoint"};
  }
  ReviewVerdict Review(const ExperimentSpec& spec, const SearchReview& review) const override {
    ReviewVerdict verdict;
    for (const PausedTrial& trial : review.paused) {
      if (trial.is_live) continue;
      const auto member =
          std::find_if(review.population.begin(), review.population.end(),
                       [&](const PopulationMember& one) { return one.number == trial.number; });
      if (member == review.population.end()) continue;
      // A clone takes its checkpoint from the store; an earlier one would repeat rows.
      if (member->newest > member->checkpoint) continue;
      verdict.resumed.push_back(trial.number);
      Change(spec, *member, verdict);
    }
    return verdict;
  }

 private:
  static void Change(const ExperimentSpec& spec, const PopulationMember& trial,
                     ReviewVerdict& verdict) {
    const Json* config = nullptr;  // At that milestone; the score is the time of the row.
    for (const Json& change : spec.scheduler.options.Find(kPolicy)->array())
      if (change.GetDouble("time") <= trial.score) config = change.Find("config");
    const absl::StatusOr<Json> now = Json::Parse(*trial.params);
    if (trial.checkpoint == 0 || config == nullptr || !now.ok()) return;
    Json params = *now;
    for (const auto& [name, value] : config->object()) params.Set(name, value);
    verdict.clones.push_back({.trial = trial.number,
                              .from = trial.number,
                              .checkpoint = trial.checkpoint,
                              .params = std::move(params)});
  }
};

}  // namespace

const Scheduler& PbtReplay() {
  static const PbtReplayScheduler scheduler;
  return scheduler;
}

}  // namespace rt
