#include "common/search/auto_search.h"

#include "common/base/status.h"
#include "common/search/auto.h"
#include "common/search/given_options.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

absl::Status CheckAutoSpace(const Space& space) {
  absl::Status status = Encoding::Of(space).status();
  if (status.ok()) return status;
  return SpecError(SpecPathOf(status), "auto does not search a grid", "write choice, or use basic");
}

AlgorithmTable MakeAutoTable() {
  return {.kind = AlgorithmKind::kSearch,
          .name = "auto",
          .version = 1,
          .meaning = "Chooses among gp, cmaes and tpe by the space and the number of trials",
          .options = GivenOptions(),
          .needs_metric = true,
          .check_space = CheckAutoSpace};
}

class AutoModel final : public PointModel {
 public:
  AutoModel(const ExperimentSpec& spec, uint64_t seed) : PointModel(spec, seed) {
    if (trials().status().ok()) optimizer_.emplace(trials().encoding(), seed, spec.max_concurrent);
  }

 protected:
  std::optional<Point> PointOf(const Observations& seen, uint64_t number,
                               const GiveUp& give_up) override {
    return optimizer_->Suggest(seen, number, give_up);
  }

 private:
  std::optional<AutoOptimizer> optimizer_;  // Empty: the space cannot be searched.
};

class AutoSearcher final : public ModelSearcher<AutoModel> {
 public:
  AutoSearcher() : ModelSearcher(MakeAutoTable()) {}

  std::string Explain(const ExperimentSpec& spec) const override {
    const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
    if (!encoding.ok()) return "";
    return TextOf(ChooseSearch(*encoding, spec.max_concurrent), spec.TrialsTotal());
  }
};

}  // namespace

const Searcher& AutoSearch() {
  static const AutoSearcher searcher;
  return searcher;
}

}  // namespace rt
