#include "common/search/tpe_search.h"

#include <limits>

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/member_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
// Of counts: the work of one answer grows with each of them.
constexpr double kCountMax = 10'000;

// Lengths are in units of the range of a parameter.
constexpr MemberOption<TpeOptions> kOptions[] = {
    {"startup_trials", nullptr, &TpeOptions::startup_trials, 0, kCountMax,
     "Evenly spread (Sobol) trials before the model; 0: one per parameter, at least 8, at most 50"},
    {"good_fraction", &TpeOptions::good_fraction, nullptr, 0, 1,
     "The part of the ended trials that counts as good", true},
    {"good_min", nullptr, &TpeOptions::good_min, 1, kCountMax, "At least this many are good"},
    {"good_max", nullptr, &TpeOptions::good_max, 1, kCountMax, "At most this many are good"},
    {"rank_power", &TpeOptions::rank_power, nullptr, 0, 10,
     "How much more the best of the good trials weigh; 0: all weigh the same"},
    {"fresh_trials", nullptr, &TpeOptions::fresh_trials, 0, kCountMax,
     "Of the other trials, the newest that keep their whole weight; older ones fade"},
    {"good_prior", &TpeOptions::good_prior, nullptr, 0, kNoBound,
     "The weight of the uniform distribution beside the good trials", true},
    {"other_prior", &TpeOptions::other_prior, nullptr, 0, kNoBound,
     "The weight of the uniform distribution beside the other trials", true},
    {"spread_prior", &TpeOptions::spread_prior, nullptr, 0, kNoBound,
     "The weight of the uniform variance in the spread of a set of trials", true},
    {"good_bandwidth", &TpeOptions::good_bandwidth, nullptr, 0, kNoBound,
     "The width of the kernels of good trials, in units of their spread", true},
    {"other_bandwidth", &TpeOptions::other_bandwidth, nullptr, 0, kNoBound,
     "The width of the kernels of other trials, in units of their spread", true},
    {"good_bandwidth_min", &TpeOptions::good_bandwidth_min, nullptr, 0, 1,
     "The least width of the kernels of good trials", true},
    {"other_bandwidth_min", &TpeOptions::other_bandwidth_min, nullptr, 0, 1,
     "The least width of the kernels of other trials", true},
    {"cell_bandwidth", &TpeOptions::cell_bandwidth, nullptr, 0, kNoBound,
     "The least width of a kernel where a parameter has steps, in steps"},
    {"category_prior", &TpeOptions::category_prior, nullptr, 0, kNoBound,
     "The weight of each category, divided by the number of trials", true},
    {"correlation_trials", &TpeOptions::correlation_trials, nullptr, 0, kCountMax,
     "The best trials per parameter whose correlation every second proposal follows"},
    {"correlation_damping", &TpeOptions::correlation_damping, nullptr, 0, kNoBound,
     "How much the correlation is damped while there are few trials"},
    {"correlated_axes_max", nullptr, &TpeOptions::correlated_axes_max, 0, 256,
     "With more numeric parameters than this, none are correlated"},
    {"candidates", nullptr, &TpeOptions::candidates, 1, kCountMax,
     "The configurations that are compared for each proposal"},
    {"candidate_spread", &TpeOptions::candidate_spread, nullptr, 0, kNoBound,
     "How much wider than the kernels the candidates are drawn", true},
    {"other_exponent", &TpeOptions::other_exponent, nullptr, 0, 10,
     "The exponent of the density of the other trials in the ratio that is compared"},
    {"newest_max", nullptr, &TpeOptions::newest_max, 1, kCountMax,
     "The newest trials that the model looks at"},
    {"best_max", nullptr, &TpeOptions::best_max, 1, kCountMax,
     "The best trials that the model looks at"},
};
// Since version 2.
constexpr MemberOption<TpeOptions> kBranchOptions[] = {
    {"branch_exploration", &TpeOptions::branch_exploration, nullptr, 0, 10,
     "With conditions: how much the other branches are explored; 0: all trials are compared"},
    {"branch_trials", nullptr, &TpeOptions::branch_trials, 3, kCountMax,
     "With conditions: the trials with which a branch has a model of its own"},
};

// Since version 3.
constexpr MemberOption<TpeOptions> kNoiseOptions[] = {
    {"smoothing", &TpeOptions::smoothing, nullptr, 0, 1,
     "With noise: trials nearer than this share their values; 0: never"},
};

absl::Status CheckTpeOptions(const Json& options, std::string_view path) {
  if (options.GetInt("good_max") < options.GetInt("good_min"))
    return SpecError(std::string(path) + "/good_max", "must not be below good_min");
  return absl::OkStatus();
}

absl::Status CheckTpeSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "tpe does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeTpeTable(uint32_t version) {
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "tpe",
      .version = version,
      .meaning =
          "Tree-structured Parzen estimator: proposes what resembles the best trials more "
          "than the others",
      .options = GivenOptions(),
      .needs_metric = true,
      .knows_outcomes = true,
      .check = CheckTpeOptions,
      .check_space = CheckTpeSpace};
  AddMemberOptions<TpeOptions>(kOptions, table);
  if (version >= 2) AddMemberOptions<TpeOptions>(kBranchOptions, table, TpeDefaults(version));
  if (version >= 3) AddMemberOptions<TpeOptions>(kNoiseOptions, table, TpeDefaults(version));
  return table;
}

class TpeModel final : public PointModel {
 public:
  TpeModel(const ExperimentSpec& spec, uint64_t seed)
      : PointModel(spec, seed), options_(TpeOptionsFrom(spec.search)), seed_(seed) {}

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<TpeAnswer> answer =
        SuggestTpe(trials().encoding(), seen, seed_, number, options_, give_up);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  const TpeOptions options_;
  const uint64_t seed_;
};

}  // namespace

const Searcher& TpeSearch() {
  static const ModelSearcher<TpeModel> searcher(MakeTpeTable(kTpeVersion));
  return searcher;
}

const Searcher& TpeSearchWithoutSmoothing() {
  static const ModelSearcher<TpeModel> searcher(MakeTpeTable(2));
  return searcher;
}

const Searcher& TpeSearchWithoutBranches() {
  static const ModelSearcher<TpeModel> searcher(MakeTpeTable(1));
  return searcher;
}

TpeOptions TpeOptionsFrom(const AlgorithmSpec& search) {
  TpeOptions options =
      ReadMemberOptions<TpeOptions>(kOptions, search.options, TpeDefaults(search.version));
  if (search.version >= 2)
    options = ReadMemberOptions<TpeOptions>(kBranchOptions, search.options, options);
  if (search.version >= 3)
    options = ReadMemberOptions<TpeOptions>(kNoiseOptions, search.options, options);
  return options;
}

}  // namespace rt
