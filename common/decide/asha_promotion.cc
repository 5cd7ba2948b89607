#include "common/decide/asha_promotion.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/strings.h"

namespace rt {
namespace {

size_t PlacesAt(double factor, size_t count) {
  return static_cast<size_t>(static_cast<double>(count) / factor);
}

// The rung at which the trial is paused; null: it was recorded at none.
const RungMembers* RungOf(const SearchReview& review, const PausedTrial& trial) {
  for (const RungMembers& rung : review.rungs)
    if (rung.bracket == trial.bracket && rung.milestone == trial.milestone) return &rung;
  return nullptr;
}

// What the stopping variant makes of a trial that cannot be resumed where it was paused.
bool StopsUnsaved(const ExperimentSpec& spec, double factor, const RungMembers& rung,
                  uint32_t trial) {
  std::vector<double> others;
  double own = NAN;
  for (const RungMember& member : rung.members) {
    if (member.trial == trial) own = member.value;
    else if (!std::isnan(member.value)) others.push_back(member.value);
  }
  std::sort(others.begin(), others.end());
  return AshaStops(factor, spec.mode, others, own);
}

// The stopping variant's decision about a trial that cannot be resumed from where it was paused.
void DecideUnsaved(const ExperimentSpec& spec, double factor, const SearchReview& review,
                   const PausedTrial& trial, ReviewVerdict& verdict) {
  const RungMembers* rung = RungOf(review, trial);
  if (rung == nullptr || !StopsUnsaved(spec, factor, *rung, trial.number))
    return verdict.resumed.push_back(trial.number);
  verdict.stopped.push_back({trial.number, "stopped by ASHA at rung " +
                                               FormatDouble(trial.milestone) +
                                               ": it saved no checkpoint when it was paused"});
}

std::vector<const RungMembers*> FromTheTop(const SearchReview& review) {
  std::vector<const RungMembers*> rungs;
  for (const RungMembers& rung : review.rungs) rungs.push_back(&rung);
  std::stable_sort(rungs.begin(), rungs.end(), [](const RungMembers* a, const RungMembers* b) {
    return a->milestone != b->milestone ? a->milestone > b->milestone : a->bracket < b->bracket;
  });
  return rungs;
}

// Only paused trials are left. The best of them continues: at the end of the search unless another
// one has trained to its end, and always where the search waits for a result.
void EndIdle(const ExperimentSpec& spec, const SearchReview& review, ReviewVerdict& verdict) {
  for (const RungMembers* rung : FromTheTop(review)) {
    if (review.has_completed && !review.search_waits) break;
    for (uint32_t number : PromotedOf(1, spec.mode, rung->members))
      for (const PausedTrial& trial : review.paused)
        if (trial.number == number && RungOf(review, trial) == rung)
          return verdict.resumed.push_back(number);
  }
  for (const PausedTrial& trial : review.paused)
    verdict.stopped.push_back(
        {trial.number,
         "stopped by ASHA at rung " + FormatDouble(trial.milestone) + ": it was not promoted"});
}

class AshaPromotionScheduler final : public PromotionScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table =
        RungTable("asha_promotion",
                  "Asynchronous successive halving: at each rung trials are paused, and the best "
                  "are resumed from their checkpoints");
    return table;
  }
};

}  // namespace

TrialVerdict PromotionScheduler::AtMilestone(const ExperimentSpec& spec, const RungValues& rung,
                                             double value) const {
  const double factor = ReductionFactor(spec);
  const std::string where = "at rung " + FormatDouble(rung.milestone);
  const bool is_number = !std::isnan(value);
  if (is_number && rung.review != nullptr &&
      IsMisleading(spec, *rung.review, rung.bracket, rung.milestone))
    return {};
  if (!rung.may_save) {
    if (!AshaStops(factor, spec.mode, rung.values, value)) return {};
    return {TrialVerdict::Action::kStop,
            "stopped by ASHA " + where + ": it has no checkpoint to be resumed from"};
  }
  if (rung.review != nullptr) {
    const std::optional<double> ceiling = Ceiling(spec, *rung.review, rung.bracket);
    if (ceiling && rung.milestone >= *ceiling)
      return {TrialVerdict::Action::kPause,
              where + ", until the ranks of the trials at the two highest rungs differ"};
  }
  if (IsPromoted(factor, spec.mode, rung.values, rung.recorded, value)) return {};
  return {TrialVerdict::Action::kPause,
          where + " of ASHA, until it is among the best 1/" + FormatDouble(factor)};
}

ReviewVerdict PromotionScheduler::Review(const ExperimentSpec& spec,
                                         const SearchReview& review) const {
  ReviewVerdict verdict;
  const double factor = ReductionFactor(spec);
  std::map<uint32_t, const PausedTrial*> waiting;
  for (const PausedTrial& trial : review.paused) {
    if (!trial.is_unsaved) waiting[trial.number] = &trial;
    else DecideUnsaved(spec, factor, review, trial, verdict);
  }
  for (const RungMembers* rung : FromTheTop(review)) {
    const std::optional<double> ceiling = Ceiling(spec, review, rung->bracket);
    if (ceiling && rung->milestone >= *ceiling) continue;
    const bool passes = IsMisleading(spec, review, rung->bracket, rung->milestone);
    for (uint32_t number : PromotedOf(passes ? 1 : factor, spec.mode, rung->members)) {
      const auto paused = waiting.find(number);
      if (paused == waiting.end() || RungOf(review, *paused->second) != rung) continue;
      verdict.resumed.push_back(number);
      waiting.erase(number);
    }
  }
  if ((review.is_idle || review.search_waits) && verdict.resumed.empty() && verdict.stopped.empty())
    EndIdle(spec, review, verdict);
  return verdict;
}

double PromotionScheduler::ContinuingOf(double trials, double factor) const {
  if (trials < 1) return trials / factor;
  return std::max(1.0, std::floor(trials / factor));
}

const Scheduler& AshaPromotion() {
  static const AshaPromotionScheduler scheduler;
  return scheduler;
}

bool IsPromoted(double factor, Mode mode, const std::vector<double>& values, uint64_t recorded,
                double value) {
  if (std::isnan(value)) return false;
  const auto begin = values.begin(), end = values.end();
  const auto better = mode == Mode::kMax ? end - std::lower_bound(begin, end, value)
                                         : std::upper_bound(begin, end, value) - begin;
  return static_cast<size_t>(better) < PlacesAt(factor, recorded + 1);
}

std::vector<uint32_t> PromotedOf(double factor, Mode mode, const std::vector<RungMember>& members) {
  struct Ranked {
    double cost;  // Less is better.
    size_t order;
    auto operator<=>(const Ranked&) const = default;
  };
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < members.size(); ++i)
    if (const double value = members[i].value; !std::isnan(value))
      ranked.push_back({mode == Mode::kMax ? -value : value, i});
  const size_t places = std::min(PlacesAt(factor, members.size()), ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(places),
                    ranked.end());
  std::vector<uint32_t> promoted;
  for (size_t i = 0; i < places; ++i) promoted.push_back(members[ranked[i].order].trial);
  return promoted;
}

}  // namespace rt
