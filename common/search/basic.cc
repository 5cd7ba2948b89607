#include "common/search/basic.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/search/given.h"
#include "common/search/quantum.h"

namespace rt {
namespace {

using Kind = Domain::Kind;

// The number of the quantum nearest to `value`, kept between the first and the last in range.
double Quantise(double value, const Domain& domain) {
  double low = std::ceil(domain.lower / domain.q - 1e-9);
  double high = std::floor(domain.upper / domain.q + 1e-9);
  return std::clamp(std::nearbyint(value / domain.q), low, high);
}

double UniformQuantum(const Domain& domain, Rng& rng) {
  double low = std::ceil(domain.lower / domain.q - 1e-9);
  double high = std::floor(domain.upper / domain.q + 1e-9);
  return low + static_cast<double>(rng.Below(static_cast<uint64_t>(high - low) + 1));
}

double LogUniform(const Domain& domain, Rng& rng) {
  double low = std::log(domain.lower), high = std::log(domain.upper);
  double value = std::exp(low + (high - low) * rng.Uniform());
  return std::clamp(value, domain.lower, domain.upper);
}

Json Whole(double value) { return Json(static_cast<int64_t>(std::llround(value))); }

}  // namespace

Json Draw(const Domain& domain, Rng& rng) { return DrawPlaced(domain, rng).value; }

Drawn DrawPlaced(const Domain& domain, Rng& rng) {
  switch (domain.kind) {
    case Kind::kUniform: {
      double value = domain.lower + (domain.upper - domain.lower) * rng.Uniform();
      return {Json(std::min(value, std::nextafter(domain.upper, domain.lower)))};
    }
    case Kind::kQUniform: return {Json(QuantumValue(UniformQuantum(domain, rng), domain.q))};
    case Kind::kLogUniform: return {Json(LogUniform(domain, rng))};
    case Kind::kQLogUniform:
      return {Json(QuantumValue(Quantise(LogUniform(domain, rng), domain), domain.q))};
    case Kind::kNormal: return {Json(domain.lower + domain.upper * rng.Normal())};
    case Kind::kQNormal: {
      double value = domain.lower + domain.upper * rng.Normal();
      return {Json(QuantumValue(std::nearbyint(value / domain.q), domain.q))};
    }
    case Kind::kRandInt:
      return {Whole(domain.lower + static_cast<double>(rng.Below(
                                       static_cast<uint64_t>(domain.upper - domain.lower))))};
    case Kind::kQRandInt: return {Whole(UniformQuantum(domain, rng) * domain.q)};
    case Kind::kLogRandInt:
      return {
          Whole(std::clamp(std::floor(LogUniform(domain, rng)), domain.lower, domain.upper - 1))};
    case Kind::kQLogRandInt: return {Whole(Quantise(LogUniform(domain, rng), domain) * domain.q)};
    case Kind::kChoice:
    case Kind::kGrid: {
      const size_t place = rng.Below(domain.values.size());
      return {domain.values[place], place};
    }
  }
  return {};
}

namespace {

// Where a trial stands: which sample, and which point of its grid.
struct Place {
  std::optional<size_t> given;  // The point that the sample takes.
  uint64_t sample_start = 0;    // The number of the sample's first trial.
  uint64_t point = 0;
};

Place PlaceOf(const ExperimentSpec& spec, uint64_t number) {
  const std::vector<uint64_t>& through = spec.trials_through;
  const auto point = std::upper_bound(through.begin(), through.end(), number);
  const uint64_t start = point == through.begin() ? 0 : *(point - 1);
  if (point != through.end())
    return {static_cast<size_t>(point - through.begin()), start, number - start};
  const uint64_t of_grid = (number - start) % spec.space.grid_points;
  return {std::nullopt, number - of_grid, of_grid};
}

constexpr char kConstantGridSearch[] = "constant_grid_search";

class BasicSearcher final : public Searcher {
 public:
  const AlgorithmTable& table() const override {
    static const AlgorithmTable table{
        .kind = AlgorithmKind::kSearch,
        .name = "basic",
        .version = 1,
        .meaning = "Grid values crossed with random draws",
        .options = {{.name = "points",
                     .type = AlgorithmOption::Type::kPoints,
                     .default_value = Json::MakeArray(),
                     .meaning = "Configurations, or parts of them, that the first samples take as "
                                "they are"},
                    {.name = kConstantGridSearch,
                     .type = AlgorithmOption::Type::kFlag,
                     .default_value = false,
                     .meaning = "Whether the points of a grid share one random draw"}},
        .aliases = {"random", "grid"}};
    return table;
  }
  std::optional<Json> Propose(const ExperimentSpec& spec, uint64_t seed,
                              uint64_t number) const override {
    return SuggestBasic(spec, seed, number);
  }
};

}  // namespace

const Searcher& BasicSearch() {
  static const BasicSearcher searcher;
  return searcher;
}

std::optional<Json> SuggestBasic(const ExperimentSpec& spec, uint64_t seed, uint64_t number) {
  std::optional<uint64_t> total = spec.TrialsTotal();
  if (total.has_value() && number >= *total) return std::nullopt;
  const Place place = PlaceOf(spec, number);
  const Json* given = place.given ? &PointsOf(spec)[*place.given] : nullptr;
  const std::set<std::string> fixed =
      given == nullptr ? std::set<std::string>() : FlatPaths(*given);
  uint64_t point = place.point;
  const bool shares_draw = spec.search.options.GetBool(kConstantGridSearch);
  Rng rng(seed, shares_draw ? place.sample_start : number);
  std::vector<Drawn> drawn;
  drawn.reserve(spec.space.variables.size());
  for (const Variable& variable : spec.space.variables) {
    const auto& values = variable.domain.values;
    if (variable.domain.kind != Domain::Kind::kGrid) {
      drawn.push_back(DrawPlaced(variable.domain, rng));
    } else if (fixed.empty() || !fixed.contains(PathText(variable.path))) {
      drawn.push_back({values[point % values.size()], point % values.size()});
      point /= values.size();
    } else {
      drawn.emplace_back();
    }
  }
  return CompletedBy(spec.space, std::move(drawn), given);
}

}  // namespace rt
