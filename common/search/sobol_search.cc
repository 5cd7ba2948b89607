#include "common/search/sobol_search.h"

#include <map>
#include <string_view>

#include "common/search/basic.h"
#include "common/search/encoding.h"
#include "common/search/sobol.h"

namespace rt {
namespace {

Json RandomConfiguration(const Space& space, uint64_t seed, uint64_t number) {
  Rng rng(seed, number);
  Json params = space.skeleton;
  for (const Variable& variable : space.variables)
    PlaceValue(params, variable, Draw(variable.domain, rng));
  return params;
}

}  // namespace

// One look at each member: a configuration may have very many.
void MergeInto(Json& into, const Json& from) {
  Json::Object& members = into.object();
  members.reserve(members.size() + from.object().size());  // The keys stay where they are.
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < members.size(); ++i) places.emplace(members[i].first, i);
  for (const auto& [key, value] : from.object()) {
    const auto [place, is_new] = places.emplace(key, members.size());
    if (is_new) {
      members.emplace_back(key, value);
    } else if (Json& known = members[place->second].second;
               known.is_object() && value.is_object()) {
      MergeInto(known, value);
    } else {
      known = value;
    }
  }
}

Json SobolConfiguration(const ExperimentSpec& spec, uint64_t seed, uint64_t number) {
  const absl::StatusOr<Encoding> encoding = Encoding::Of(spec.space);
  Json params =
      encoding.ok()
          ? encoding->Decode(encoding->Snap(ScrambledSobol(seed, number, encoding->axes().size())))
          : RandomConfiguration(spec.space, seed, number);
  const Json::Array& points = PointsOf(spec);
  if (number < points.size()) MergeInto(params, points[number]);
  return params;
}

}  // namespace rt
