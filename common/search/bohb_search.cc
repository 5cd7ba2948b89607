#include "common/search/bohb_search.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

absl::Status CheckBohbSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "bohb does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeBohbTable() {
  using Type = AlgorithmOption::Type;
  const BohbOptions defaults;
  constexpr double kBohbCountMax = 10'000;  // The work of one answer grows with it.
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "bohb",
      .version = 1,
      .meaning =
          "The model of BOHB: proposes what resembles the best trials at the highest rung "
          "that has enough of them; made for the scheduler hyperband",
      .options = GivenOptions(),
      .needs_metric = true,
      .reads_rungs = true,
      .check_space = CheckBohbSpace};
  const std::vector<AlgorithmOption> own = {
      {.name = "random_fraction",
       .default_value = defaults.random_fraction,
       .meaning = "The part of the trials that is spread evenly (Sobol) instead",
       .lower = 0,
       .upper = 1},
      {.name = "good_fraction",
       .default_value = defaults.good_fraction,
       .meaning = "The part of the trials at a rung that counts as good",
       .lower = 0,
       .upper = 1,
       .is_open = true},
      {.name = "rows_min",
       .type = Type::kInteger,
       .default_value = static_cast<int64_t>(defaults.rows_min),
       .meaning = "A rung with two more values than this has a model; 0: one more than there are "
                  "parameters",
       .lower = 0,
       .upper = kBohbCountMax},
      {.name = "candidates",
       .type = Type::kInteger,
       .default_value = static_cast<int64_t>(defaults.candidates),
       .meaning = "The configurations that are compared for each proposal",
       .lower = 1,
       .upper = kBohbCountMax}};
  table.options.insert(table.options.end(), own.begin(), own.end());
  return table;
}

class BohbModel final : public PointModel {
 public:
  BohbModel(const ExperimentSpec& spec, uint64_t seed)
      : PointModel(spec, seed), options_(BohbOptionsFrom(spec.search.options)), seed_(seed) {}

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<BohbAnswer> answer =
        SuggestBohb(trials().encoding(), seen, seed_, number, options_, give_up);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  const BohbOptions options_;
  const uint64_t seed_;
};

}  // namespace

const Searcher& BohbSearch() {
  static const ModelSearcher<BohbModel> searcher(MakeBohbTable());
  return searcher;
}

BohbOptions BohbOptionsFrom(const Json& options) {
  BohbOptions bohb;
  const auto read = [&](const char* name, double& number) {
    const Json* value = options.Find(name);
    if (value != nullptr && value->HasDouble()) number = value->AsDouble();
  };
  const auto read_count = [&](const char* name, size_t& count) {
    double number = static_cast<double>(count);
    read(name, number);
    count = static_cast<size_t>(std::max(0.0, number));
  };
  read("random_fraction", bohb.random_fraction);
  read("good_fraction", bohb.good_fraction);
  read_count("rows_min", bohb.rows_min);
  read_count("candidates", bohb.candidates);
  return bohb;
}

}  // namespace rt
