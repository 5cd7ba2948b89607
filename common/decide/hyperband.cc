#include "common/decide/hyperband.h"

#include <algorithm>
#include <cmath>

#include "common/base/limits.h"
#include "common/base/strings.h"
#include "common/decide/asha.h"

namespace rt {
namespace {

// log(max_t) / log(factor), rounded, a half to the even side, without logarithms: those are not the
// same on every machine.
uint32_t RoundedLog(double max_t, double factor) {
  uint32_t k = 0;
  for (double bound = factor; k < limits::kBracketsMax; bound *= factor * factor, ++k) {
    const double square = max_t * max_t;
    if (square < bound || (square == bound && k % 2 == 0)) break;
  }
  return k;
}

std::vector<HyperBandBracket> BandOfSpec(const ExperimentSpec& spec) {
  const Json& options = spec.scheduler.options;
  std::vector<HyperBandBracket> band =
      rt::BandOf(options.GetDouble("max_t"), options.GetDouble("reduction_factor"));
  if (options.GetBool("largest_first")) std::reverse(band.begin(), band.end());
  return band;
}

AlgorithmTable MakeTable() {
  using Type = AlgorithmOption::Type;
  return {
      .kind = AlgorithmKind::kScheduler,
      .name = "hyperband",
      .version = 1,
      .meaning =
          "HyperBand: brackets of trials that wait for each other at their rungs; the "
          "best are resumed from their checkpoints",
      .options = {{.name = "time_attr",
                   .type = Type::kMetricName,
                   .default_value = "training_iteration",
                   .meaning = "The reported value in whose units the other options are"},
                  {.name = "max_t",
                   .default_value = 81.0,
                   .meaning = "The time at which a trial has trained to its end",
                   .lower = 1},
                  {.name = "reduction_factor",
                   .default_value = 3.0,
                   .meaning = "Of the trials of a bracket, one in this many continues at a rung",
                   .lower = 1.1},
                  {.name = "largest_first",
                   .type = Type::kFlag,
                   .default_value = false,
                   .meaning = "Whether a band begins with the bracket that has the most trials"},
                  {.name = "stop_last_trials",
                   .type = Type::kFlag,
                   .default_value = true,
                   .meaning = "Whether a trial that has passed all rungs is ended"}},
      .needs_metric = true,
      .has_rungs = true};
}

struct Ranked {
  double cost = 0;  // Less is better.
  uint32_t trial = 0;
  double milestone = 0;
  friend auto operator<=>(const Ranked&, const Ranked&) = default;
};

class HyperBandScheduler final : public RungScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table = MakeTable();
    return table;
  }
  uint32_t BracketOf(const ExperimentSpec& spec, uint64_t, uint64_t number) const override {
    const std::vector<HyperBandBracket> band = BandOfSpec(spec);
    uint64_t size = 0;
    for (const HyperBandBracket& bracket : band) size += bracket.trials;
    auto first = static_cast<uint32_t>(number / size * band.size());
    uint64_t place = number % size;
    for (const HyperBandBracket& bracket : band) {
      if (place < bracket.trials) break;
      place -= bracket.trials;
      ++first;
    }
    return first;
  }
  uint32_t BracketCount(const ExperimentSpec& spec) const override {
    return static_cast<uint32_t>(BandOfSpec(spec).size());
  }
  TrialLimits LimitsOf(const ExperimentSpec& spec, uint32_t bracket) const override {
    const std::vector<HyperBandBracket> band = BandOfSpec(spec);
    const std::vector<double>& milestones = band[bracket % band.size()].milestones;
    return {.time_attr = spec.scheduler.options.GetString("time_attr"),
            .milestones = milestones,
            .max_t = milestones.back(),
            .ends_at_max_t = spec.scheduler.options.GetBool("stop_last_trials")};
  }
  TrialVerdict AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                           double value) const override {
    if (rung.milestone >= *LimitsOf(spec, rung.bracket).max_t) return {};
    if (ContinuesAsLast(spec, rung, value)) return {};
    const std::string where = "at rung " + FormatDouble(rung.milestone);
    if (rung.may_save)
      return {TrialVerdict::Action::kPause, where + " of HyperBand, until all trials of bracket " +
                                                std::to_string(rung.bracket) + " are there"};
    if (!AshaStops(ReductionFactor(spec), spec.mode, rung.values, value)) return {};
    return {TrialVerdict::Action::kStop,
            "stopped by HyperBand " + where + ": it has no checkpoint to be resumed from"};
  }
  bool reviews_trials() const override { return true; }
  bool compares_brackets() const override { return true; }
  ReviewVerdict Review(const ExperimentSpec& spec, const SearchReview& review) const override {
    ReviewVerdict verdict;
    for (const BracketState& bracket : review.brackets) {
      const bool has_arrived = review.arrived && review.arrived->bracket == bracket.number;
      if (bracket.open == (has_arrived ? 1U : 0U) && IsFull(spec, review, bracket))
        Halve(spec, review, bracket.number, verdict);
    }
    return verdict;
  }
  SchedulePlan PlanOf(const ExperimentSpec& spec, std::optional<uint64_t> trials) const override {
    SchedulePlan plan{.brackets = Json::MakeArray()};
    const std::vector<HyperBandBracket> band = BandOfSpec(spec);
    uint64_t size = 0;
    for (const HyperBandBracket& bracket : band) size += bracket.trials;
    double work = 0, longest = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < band.size(); ++i) {
      uint64_t begin = band[i].trials;
      if (trials) {
        const uint64_t rest = *trials % size;
        begin = *trials / size * begin + std::min(begin, rest > before ? rest - before : 0);
      }
      before += band[i].trials;
      longest = std::max(longest, band[i].milestones.back());
      plan.brackets.Append(Json::MakeObject(
          {{"bracket", Json(static_cast<int64_t>(i))},
           {"share", static_cast<double>(band[i].trials) / static_cast<double>(size)},
           {"rungs", PlannedRungs(spec, band[i], begin, trials.has_value(), work)}}));
    }
    if (trials.value_or(0) > 0)
      plan.share_of_full = Json(work / (static_cast<double>(*trials) * longest));
    return plan;
  }

 protected:
  std::optional<double> MilestoneAt(const ScheduledTrial& trial, double t) const override {
    return NewestMilestone(trial, t);
  }

 private:
  static uint64_t KeptOf(const ExperimentSpec& spec, uint64_t trials) {
    return static_cast<uint64_t>(std::ceil(static_cast<double>(trials) / ReductionFactor(spec)));
  }
  static Json PlannedRungs(const ExperimentSpec& spec, const HyperBandBracket& bracket,
                           uint64_t left, bool is_bounded, double& work) {
    Json rungs = Json::MakeArray();
    double before = 0;
    for (double milestone : bracket.milestones) {
      rungs.Append(
          Json::MakeObject({{"milestone", milestone},
                            {"trials", is_bounded ? Json(static_cast<int64_t>(left)) : Json()}}));
      work += static_cast<double>(left) * (milestone - before);
      before = milestone;
      left = KeptOf(spec, left);
    }
    return rungs;
  }
  // No more trials will begin in the bracket.
  static bool IsFull(const ExperimentSpec& spec, const SearchReview& review,
                     const BracketState& bracket) {
    const std::vector<HyperBandBracket> band = BandOfSpec(spec);
    return !review.others_come || bracket.created >= band[bracket.number % band.size()].trials;
  }
  // The paused trials of the bracket, the best first. A trial that jumped over a rung is compared
  // by its newest value, as in Ray.
  static std::vector<Ranked> RankedOf(const ExperimentSpec& spec, const SearchReview& review,
                                      uint32_t bracket) {
    std::vector<Ranked> ranked;
    for (const PausedTrial& trial : review.paused)
      if (trial.bracket == bracket)
        ranked.push_back({CostOf(spec, ValueOf(review, trial)), trial.number, trial.milestone});
    return ranked;
  }
  // True if the trial is the last of its bracket to reach the rung, and is among the best there: it
  // then continues without a pause.
  static bool ContinuesAsLast(const ExperimentSpec& spec, const RungValues& rung, double value) {
    if (rung.review == nullptr) return false;
    for (const BracketState& bracket : rung.review->brackets) {
      if (bracket.number != rung.bracket) continue;
      if (bracket.open != 1 || !IsFull(spec, *rung.review, bracket)) return false;
    }
    std::vector<Ranked> ranked = RankedOf(spec, *rung.review, rung.bracket);
    const Ranked own{CostOf(spec, value), rung.trial, rung.milestone};
    for (const Ranked& one : ranked)
      if (one.trial == rung.trial) return false;  // It is paused already.
    const auto better =
        std::count_if(ranked.begin(), ranked.end(), [&](const Ranked& one) { return one < own; });
    return static_cast<uint64_t>(better) < KeptOf(spec, ranked.size() + 1);
  }
  // All trials of the bracket that are not over are at a rung.
  static void Halve(const ExperimentSpec& spec, const SearchReview& review, uint32_t bracket,
                    ReviewVerdict& verdict) {
    std::vector<Ranked> ranked = RankedOf(spec, review, bracket);
    if (ranked.empty()) return;
    const auto& arrived = review.arrived;
    if (arrived && arrived->bracket == bracket)
      ranked.push_back(
          {CostOf(spec, ValueOf(review, *arrived)), arrived->number, arrived->milestone});
    std::sort(ranked.begin(), ranked.end());
    const uint64_t kept = KeptOf(spec, ranked.size());
    for (size_t i = 0; i < ranked.size(); ++i) {
      const Ranked& one = ranked[i];
      const bool runs = arrived && arrived->number == one.trial;
      if (i >= kept)
        verdict.stopped.push_back({one.trial, "stopped by HyperBand at rung " +
                                                  FormatDouble(one.milestone) + ": " +
                                                  std::to_string(kept) + " of " +
                                                  std::to_string(ranked.size()) + " continue"});
      else if (!runs) verdict.resumed.push_back(one.trial);
    }
  }
  static double CostOf(const ExperimentSpec& spec, double value) {
    if (std::isnan(value)) return INFINITY;
    return spec.mode == Mode::kMax ? -value : value;
  }
  static double ValueOf(const SearchReview& review, const PausedTrial& trial) {
    for (const RungMembers& rung : review.rungs) {
      if (rung.bracket != trial.bracket || rung.milestone != trial.milestone) continue;
      for (const RungMember& member : rung.members)
        if (member.trial == trial.number) return member.value;
    }
    return NAN;
  }
};

}  // namespace

const Scheduler& HyperBand() {
  static const HyperBandScheduler scheduler;
  return scheduler;
}

std::vector<HyperBandBracket> BandOf(double max_t, double reduction_factor) {
  std::vector<HyperBandBracket> band;
  const uint32_t count = RoundedLog(max_t, reduction_factor) + 1;
  double power = 1;  // reduction_factor^s.
  for (uint32_t s = 0; s < count; ++s, power *= reduction_factor) {
    double milestone = std::floor(max_t / power);
    const double trials = std::ceil(count * power / (s + 1));
    if (milestone < 1 || trials > static_cast<double>(limits::kSamplesMax)) break;
    HyperBandBracket& bracket = band.emplace_back();
    bracket.trials = static_cast<uint64_t>(trials);
    for (uint32_t i = 0; i <= s; ++i) {
      if (!bracket.milestones.empty() && bracket.milestones.back() == milestone) break;
      bracket.milestones.push_back(milestone);
      milestone = std::floor(std::min(milestone * reduction_factor, max_t));
    }
  }
  return band;
}

}  // namespace rt
