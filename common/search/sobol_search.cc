#include "common/search/sobol_search.h"

#include "common/search/basic.h"
#include "common/search/encoding.h"
#include "common/search/given.h"
#include "common/search/sobol.h"

namespace rt {
namespace {

std::vector<Drawn> RandomDraws(const Space& space, uint64_t seed, uint64_t number) {
  Rng rng(seed, number);
  std::vector<Drawn> drawn;
  for (const Variable& variable : space.variables)
    drawn.push_back(DrawPlaced(variable.domain, rng));
  return drawn;
}

}  // namespace

Json SobolConfiguration(const ExperimentSpec& spec, uint64_t seed, uint64_t number) {
  const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
  std::vector<Drawn> drawn =
      encoding.ok()
          ? encoding->DrawnAt(encoding->Snap(ScrambledSobol(seed, number, encoding->axes().size())))
          : RandomDraws(spec.space, seed, number);
  const Json::Array& points = PointsOf(spec);
  return CompletedBy(spec.space, std::move(drawn),
                     number < points.size() ? &points[number] : nullptr);
}

}  // namespace rt
