#include "common/search/cma_search.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/mixture.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

using Type = AlgorithmOption::Type;

// Of counts: the work of one answer grows with each of them.
constexpr double kCountMax = 10'000;

constexpr char kMiddleFirst[] = "middle_first";

struct CmaCount {
  const char* name;
  size_t CmaOptions::*count;
  double upper;
  const char* meaning;
};

constexpr CmaCount kCounts[] = {
    {"startup_trials", &CmaOptions::startup_trials, kCountMax,
     "Evenly spread (Sobol) trials before the strategy; 0: one per parameter, at least 6, at most "
     "50"},
    {"population_size", &CmaOptions::population, kCountMax,
     "The points that a generation ranks, at least 4; 0: 4 * (4 + 3 ln(parameters))"},
    {"stall_trials", &CmaOptions::stall_trials, kCountMax,
     "Trials without a better one after which the search restarts elsewhere; 0: 40, and 10 per "
     "parameter"},
    {"model_trials", &CmaOptions::model_trials, kCountMax,
     "The number of results after which generations are ranked without a model of the values"},
};

absl::Status CheckCmaOptions(const Json& options, std::string_view path) {
  const int64_t population = options.GetInt("population_size");
  if (population == 0 || population >= static_cast<int64_t>(kCmaPopulationMin))
    return absl::OkStatus();
  return SpecError(std::string(path) + "/population_size",
                   "must be 0 or at least " + std::to_string(kCmaPopulationMin),
                   "a generation of fewer points has no better half to learn from");
}

absl::Status CheckCmaSpace(const Space& space) {
  const absl::StatusOr<Encoding> encoding = Encoding::Of(space);
  if (!encoding.ok())
    return SpecError(SpecPathOf(encoding.status()), "cmaes does not search a grid",
                     "write choice, or use basic");
  const size_t numeric = Mixture::SteadyNumericAxes(*encoding).size();
  if (numeric == 0 && !encoding->axes().empty())
    return SpecError("space", "cmaes needs a parameter that is a number with a range", "use tpe");
  if (numeric > kCmaAxesMax)
    return SpecError("space",
                     "cmaes searches at most " + std::to_string(kCmaAxesMax) + " parameters",
                     "use tpe");
  return absl::OkStatus();
}

AlgorithmTable MakeCmaTable(uint32_t version) {
  const CmaOptions defaults;
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "cmaes",
      .version = version,
      .meaning =
          "Evolution strategy that adapts its covariance (CMA-ES), ranked with the help of "
          "a Gaussian process: for parameters that are numbers",
      .options = GivenOptions(),
      .aliases = {"cma"},
      .needs_metric = true,
      .check = CheckCmaOptions,
      .check_space = CheckCmaSpace};
  table.options.push_back(
      {.name = "sigma0",
       .default_value = defaults.sigma,
       .meaning = "The standard deviation at the start, in units of the range of a parameter",
       .lower = 0,
       .upper = 1,
       .is_open = true});
  for (const CmaCount& option : kCounts)
    table.options.push_back({.name = option.name,
                             .type = Type::kInteger,
                             .default_value = Json(static_cast<int64_t>(defaults.*option.count)),
                             .meaning = option.meaning,
                             .lower = 0,
                             .upper = option.upper});
  if (version >= 2)
    table.options.push_back(
        {.name = kMiddleFirst,
         .type = Type::kFlag,
         .default_value = true,
         .meaning =
             "The first trial is the middle of the numeric parameters' ranges; with more than "
             "10 of them the strategy begins there, after 8 trials, a third as wide"});
  return table;
}

class CmaModel final : public PointModel {
 public:
  CmaModel(const ExperimentSpec& spec, uint64_t seed) : PointModel(spec, seed) {
    if (trials().status().ok())
      strategy_.emplace(trials().encoding(), seed, CmaOptionsFrom(spec.search));
  }

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<CmaAnswer> answer = strategy_->Suggest(seen, number, give_up);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  std::optional<CmaEs> strategy_;  // Empty: the space cannot be searched.
};

}  // namespace

const Searcher& CmaSearch() {
  static const ModelSearcher<CmaModel> searcher(MakeCmaTable(2));
  return searcher;
}

const Searcher& CmaSearchFromSobol() {
  static const ModelSearcher<CmaModel> searcher(MakeCmaTable(1));
  return searcher;
}

CmaOptions CmaOptionsFrom(const AlgorithmSpec& search) {
  const Json& options = search.options;
  CmaOptions cma;
  cma.begins_in_middle = search.version >= 2 && options.GetBool(kMiddleFirst, true);
  cma.sigma = options.GetDouble("sigma0", cma.sigma);
  for (const CmaCount& option : kCounts) {
    const int64_t count = options.GetInt(option.name, static_cast<int64_t>(cma.*option.count));
    cma.*option.count = static_cast<size_t>(std::max<int64_t>(count, 0));
  }
  return cma;
}

}  // namespace rt
