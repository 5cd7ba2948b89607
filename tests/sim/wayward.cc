#include "tests/sim/wayward.h"

#include <cmath>
#include <stdexcept>

#include "common/base/rng.h"
#include "common/search/model_searcher.h"

namespace rt {
namespace {

class WaywardModel final : public SearchModel {
 public:
  WaywardModel(const ExperimentSpec& spec, uint64_t seed) : space_(spec.space), seed_(seed) {}

  void AddTrial(const Json& params) override { added_.push_back(params.Dump()); }
  void ForgetFrom(uint64_t number) override { added_.resize(number); }

  absl::StatusOr<Json> Propose(const std::vector<TrialResult>& results,
                               const GiveUp& give_up) override {
    if (give_up && give_up()) return absl::DeadlineExceededError("it is slow");
    Rng rng(seed_, results.size());
    switch (rng.Below(16)) {
      case 0: return absl::FailedPreconditionError("it does not like this number");
      case 1: throw std::runtime_error("it throws at this number");
      case 2: return Json::MakeObject({{"lr", std::nan("")}});
      default: break;
    }
    uint64_t known = added_.size();
    for (const std::string& params : added_)
      for (const char c : params) known = known * 31 + static_cast<unsigned char>(c);
    for (const TrialResult& result : results)
      known = known * 31 + static_cast<uint64_t>(result.kind) +
              static_cast<uint64_t>(std::abs(result.value) * 1'000);
    Rng answer(seed_ ^ known, results.size());
    Json params = space_.skeleton;
    for (const Variable& variable : space_.variables) {
      const auto& values = variable.domain.values;
      PlaceValue(params, variable,
                 values.empty() ? Json(answer.Uniform()) : values[answer.Below(values.size())]);
    }
    return params;
  }

 private:
  const Space space_;
  const uint64_t seed_;
  std::vector<std::string> added_;
};

}  // namespace

const Searcher& Wayward() {
  static const ModelSearcher<WaywardModel> searcher({.kind = AlgorithmKind::kSearch,
                                                     .name = "wayward",
                                                     .meaning = "Does what a model should not do",
                                                     .options = {},
                                                     .needs_metric = true});
  return searcher;
}

}  // namespace rt
