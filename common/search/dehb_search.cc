#include "common/search/dehb_search.h"

#include "common/base/status.h"
#include "common/search/given_options.h"
#include "common/search/member_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

constexpr MemberOption<DehbOptions> kDehbOptions[] = {
    {"weight", &DehbOptions::weight, nullptr, 0, 2,
     "The part of the difference of two trials by which a third one is moved", true},
    {"crossover", &DehbOptions::crossover, nullptr, 0, 1,
     "How often a parameter is that of the moved trial, and not of the one that is changed"},
    {"population_size", nullptr, &DehbOptions::population_size, 4, 1'000,
     "The best trials at a rung from which new ones descend"},
};

absl::Status CheckDehbSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "dehb does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeDehbTable() {
  AlgorithmTable table{
      .kind = AlgorithmKind::kSearch,
      .name = "dehb",
      .version = 1,
      .meaning =
          "Differential evolution of the best trials at the highest rung that has enough of them; "
          "made for the scheduler hyperband",
      .options = GivenOptions(),
      .needs_metric = true,
      .reads_rungs = true,
      .check_space = CheckDehbSpace};
  AddMemberOptions<DehbOptions>(kDehbOptions, table);
  return table;
}

class DehbModel final : public PointModel {
 public:
  DehbModel(const ExperimentSpec& spec, uint64_t seed)
      : PointModel(spec, seed), options_(DehbOptionsFrom(spec.search.options)), seed_(seed) {}

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    std::optional<DehbAnswer> answer =
        SuggestDehb(trials().encoding(), seen, seed_, number, options_, give_up);
    return answer.has_value() ? std::optional(std::move(answer->point)) : std::nullopt;
  }

 private:
  const DehbOptions options_;
  const uint64_t seed_;
};

}  // namespace

const Searcher& DehbSearch() {
  static const ModelSearcher<DehbModel> searcher(MakeDehbTable());
  return searcher;
}

DehbOptions DehbOptionsFrom(const Json& options) {
  return ReadMemberOptions<DehbOptions>(kDehbOptions, options);
}

}  // namespace rt
