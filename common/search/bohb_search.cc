#include "common/search/bohb_search.h"

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/member_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

constexpr double kBohbCountMax = 10'000;  // The work of one answer grows with it.

constexpr MemberOption<BohbOptions> kBohbOptions[] = {
    {"random_fraction", &BohbOptions::random_fraction, nullptr, 0, 1,
     "The part of the trials that is spread evenly (Sobol) instead"},
    {"good_fraction", &BohbOptions::good_fraction, nullptr, 0, 1,
     "The part of the trials at a rung that counts as good", true},
    {"rows_min", nullptr, &BohbOptions::rows_min, 0, kBohbCountMax,
     "A rung with two more values than this has a model; 0: one more than there are parameters"},
    {"candidates", nullptr, &BohbOptions::candidates, 1, kBohbCountMax,
     "The configurations that are compared for each proposal"},
};

absl::Status CheckBohbSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "bohb does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeBohbTable() {
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
  AddMemberOptions<BohbOptions>(kBohbOptions, table);
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
  return ReadMemberOptions<BohbOptions>(kBohbOptions, options);
}

}  // namespace rt
