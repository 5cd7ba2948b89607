#include "common/search/gp_search.h"

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/gp_outcomes.h"
#include "common/search/member_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

// The work of one answer grows with the cube of history_max.
constexpr MemberOption<GpOptions> kGpOptions[] = {
    {"startup_trials", nullptr, &GpOptions::startup_trials, 0, 10'000,
     "Evenly spread (Sobol) trials before the model; 0: one per parameter, at least 6, at most 50"},
    {"history_max", nullptr, &GpOptions::history_max, static_cast<double>(kGpHistoryMin), 1'000,
     "The trials that the model looks at: half of them the best, the others evenly by rank"},
    {"local_every", nullptr, &GpOptions::local_every, 0, 10'000,
     "One trial of this many is searched for near the best one; 0: none. With more than 15 "
     "parameters all but one of this many are"},
};

// Since version 2.
constexpr MemberOption<GpOptions> kGpNoiseOptions[] = {
    {"noise_chance", &GpOptions::noise_chance, nullptr, 0, 0.5,
     "How probable noise in the values is before any is known; 0: none, for values that repeat"},
};

absl::Status CheckGpSpace(const Space& space) {
  const absl::StatusOr<Encoding> encoding = Encoding::Of(space);
  if (!encoding.ok())
    return SpecError(SpecPathOf(encoding.status()), "gp does not search a grid",
                     "write choice, or use basic");
  if (encoding->axes().size() > kGpAxesMax)
    return SpecError("space", "gp searches at most " + std::to_string(kGpAxesMax) + " parameters",
                     "use tpe");
  return absl::OkStatus();
}

AlgorithmTable MakeGpTable(uint32_t version) {
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "gp",
      .version = version,
      .meaning = "Bayesian optimisation with a Gaussian process (GP-BO): for few, expensive trials",
      .options = GivenOptions(),
      .aliases = {"bayesian"},
      .needs_metric = true,
      .knows_outcomes = true,
      .check_space = CheckGpSpace};
  AddMemberOptions<GpOptions>(kGpOptions, table);
  if (version >= 2) AddMemberOptions<GpOptions>(kGpNoiseOptions, table, GpDefaults(version));
  return table;
}

class GpModel final : public PointModel {
 public:
  GpModel(const ExperimentSpec& spec, uint64_t seed)
      : PointModel(spec, seed), options_(GpOptionsFrom(spec.search)), seed_(seed),
        has_outcomes_(!spec.OutcomeKeys().empty()) {
    if (trials().status().ok() && !has_outcomes_)
      optimizer_.emplace(trials().encoding(), seed, options_);
  }

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<GpAnswer> answer =
        has_outcomes_
            ? SuggestGpOutcomes(trials().encoding(), seen, seed_, number, options_, give_up)
            : optimizer_->Suggest(seen, number, give_up);
    if (answer.has_value()) Note(answer->belief);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  const GpOptions options_;
  const uint64_t seed_;
  const bool has_outcomes_;  // Several objectives, or constraints.
  // Empty: the space cannot be searched, or there are outcomes.
  std::optional<GpOptimizer> optimizer_;
};

}  // namespace

const Searcher& GpSearch() {
  static const ModelSearcher<GpModel> searcher(MakeGpTable(kGpVersion));
  return searcher;
}

const Searcher& GpSearchWithoutNoise() {
  static const ModelSearcher<GpModel> searcher(MakeGpTable(1));
  return searcher;
}

GpOptions GpOptionsFrom(const AlgorithmSpec& search) {
  const GpOptions options =
      ReadMemberOptions<GpOptions>(kGpOptions, search.options, GpDefaults(search.version));
  if (search.version < 2) return options;
  return ReadMemberOptions<GpOptions>(kGpNoiseOptions, search.options, options);
}

}  // namespace rt
