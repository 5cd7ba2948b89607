#include "tests/seams/sweep.h"

#include "common/spec/space.h"

namespace rt {
namespace {

class SweepSearcher final : public Searcher {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table{.kind = AlgorithmKind::kSearch,
                                      .name = "sweep",
                                      .meaning = "Steps along every number of the space",
                                      .options = {{.name = "steps",
                                                   .type = AlgorithmOption::Type::kInteger,
                                                   .default_value = 4,
                                                   .meaning = "The number of steps",
                                                   .lower = 1,
                                                   .upper = 100}}};
    return table;
  }
  std::optional<Json> Propose(const ExperimentSpec& spec, uint64_t /*seed*/,
                              uint64_t number) const override {
    const auto steps = static_cast<uint64_t>(spec.search.options.GetInt("steps"));
    if (number >= steps) return std::nullopt;
    const double part = static_cast<double>(number) / static_cast<double>(steps);
    Json params = spec.space.skeleton;
    for (const Variable& variable : spec.space.variables) {
      const Domain& domain = variable.domain;
      PlaceValue(params, variable, Json(domain.lower + part * (domain.upper - domain.lower)));
    }
    return params;
  }
};

}  // namespace

const Searcher& Sweep() {
  static const SweepSearcher searcher;
  return searcher;
}

}  // namespace rt
