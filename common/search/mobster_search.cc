#include "common/search/mobster_search.h"

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/gp.h"
#include "common/search/member_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

constexpr MemberOption<MobsterOptions> kMobsterOptions[] = {
    {"random_fraction", &MobsterOptions::random_fraction, nullptr, 0, 1,
     "The part of the trials that is spread evenly (Sobol) whatever is known"},
    {"even_weight", &MobsterOptions::even_weight, nullptr, 0, 10'000,
     "With n trials trained to their ends, this / (this + n) of the trials are spread evenly, if "
     "that is more"},
    {"startup_trials", nullptr, &MobsterOptions::startup_trials, 0, 10'000,
     "Evenly spread (Sobol) trials before the model, which begins once a rung has as many values; "
     "0: one per parameter, at least 6, at most 50"},
    {"rows_min", nullptr, &MobsterOptions::rows_min, 2, 10'000,
     "A rung with fewer values than this is not looked at"},
    // The work of one answer grows with its cube.
    {"history_max", nullptr, &MobsterOptions::history_max, static_cast<double>(kMobsterHistoryMin),
     500,
     "The trials of a rung that the model looks at: half of them the best, the others evenly "
     "by rank"},
};

absl::Status CheckMobsterSpace(const Space& space) {
  const absl::StatusOr<Encoding> encoding = Encoding::Of(space);
  if (!encoding.ok())
    return SpecError(SpecPathOf(encoding.status()), "mobster does not search a grid",
                     "write choice, or use basic");
  if (encoding->axes().size() > kGpAxesMax)
    return SpecError("space",
                     "mobster searches at most " + std::to_string(kGpAxesMax) + " parameters",
                     "use bohb");
  return absl::OkStatus();
}

AlgorithmTable MakeMobsterTable(uint32_t version) {
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "mobster",
      .version = version,
      .meaning =
          "A Gaussian process over configurations and rungs, as in MOBSTER: proposes where it "
          "expects the largest improvement at the highest rung; made for asha_promotion and asha",
      .options = GivenOptions(),
      .needs_metric = true,
      .reads_rungs = true,
      .check_space = CheckMobsterSpace};
  AddMemberOptions<MobsterOptions>(kMobsterOptions, table);
  return table;
}

class MobsterModel final : public PointModel {
 public:
  MobsterModel(const ExperimentSpec& spec, uint64_t seed) : PointModel(spec, seed) {
    if (trials().status().ok())
      model_.emplace(trials().encoding(), seed, MobsterOptionsFrom(spec.search));
  }

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<MobsterAnswer> answer = model_->Suggest(seen, number, give_up);
    if (answer.has_value()) Note(answer->belief);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  std::optional<Mobster> model_;  // Empty: the space cannot be searched.
};

}  // namespace

const Searcher& MobsterSearch() {
  static const ModelSearcher<MobsterModel> searcher(MakeMobsterTable(2));
  return searcher;
}

const Searcher& MobsterSearchUnstretched() {
  static const ModelSearcher<MobsterModel> searcher(MakeMobsterTable(1));
  return searcher;
}

MobsterOptions MobsterOptionsFrom(const AlgorithmSpec& search) {
  MobsterOptions options = ReadMemberOptions<MobsterOptions>(kMobsterOptions, search.options);
  options.stretches_best = search.version >= 2;
  return options;
}

}  // namespace rt
