#include "common/decide/pasha.h"

#include "common/decide/asha_promotion.h"
#include "common/decide/rank_check.h"

namespace rt {
namespace {

AlgorithmTable PashaTable() {
  AlgorithmTable table = RungTable("pasha",
                                   "Progressive ASHA: higher rungs are opened only while the two "
                                   "highest rank trials differently");
  table.options.push_back(
      {.name = "tolerance",
       .default_value = 1.0,
       .meaning = "Trials whose values differ by at most this many standard deviations count as "
                  "equal",
       .lower = 0});
  return table;
}

class PashaScheduler final : public PromotionScheduler {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table = PashaTable();
    return table;
  }
  bool compares_rungs(const ExperimentSpec&) const override { return true; }

 protected:
  std::optional<double> Ceiling(const ExperimentSpec& spec, const SearchReview& review,
                                uint32_t bracket) const override {
    const AshaOptions options = AshaOptions::From(spec.scheduler);
    std::vector<double> ladder = MilestonesOf(options.ladder, static_cast<int>(bracket));
    // No trial is paused where all end.
    if (options.stop_last_trials && !ladder.empty() && ladder.back() >= options.ladder.max_t)
      ladder.pop_back();
    const std::vector<const RungMembers*> rungs = RungsOf(review, bracket);
    // A rung at which two trials were recorded is open. One alone may be the last of a search, or
    // the one whose result the search waits for, which trains to its end.
    size_t open = 2;
    for (const RungMembers* rung : rungs)
      for (size_t i = open; i < ladder.size() && rung->members.size() > 1; ++i)
        if (rung->milestone >= ladder[i]) open = i + 1;
    if (open > ladder.size()) return std::nullopt;
    const RungMembers *lower = Find(rungs, ladder[open - 2]),
                      *upper = Find(rungs, ladder[open - 1]);
    const double tolerance = spec.scheduler.options.GetDouble("tolerance");
    const bool opens =
        lower != nullptr && upper != nullptr && RanksDiffer(CommonOf(*lower, *upper), tolerance);
    if (opens) ++open;
    if (open > ladder.size()) return std::nullopt;
    return ladder[open - 1];
  }

 private:
  static const RungMembers* Find(const std::vector<const RungMembers*>& rungs, double milestone) {
    for (const RungMembers* rung : rungs)
      if (rung->milestone == milestone) return rung;
    return nullptr;
  }
};

}  // namespace

const Scheduler& Pasha() {
  static const PashaScheduler scheduler;
  return scheduler;
}

}  // namespace rt
