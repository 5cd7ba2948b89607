#include "common/search/given.h"

#include <map>
#include <string_view>
#include <utility>

namespace rt {

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

Json CompletedBy(const Space& space, std::vector<Drawn> drawn, const Json* given) {
  if (given != nullptr && space.IsConditional()) {
    for (size_t i = 0; i < space.variables.size(); ++i) {
      // What is inside a value of a choice counts where that value was chosen.
      if (!Hold(space.variables[i].conditions, drawn)) continue;
      const Json* value = ValueAtPath(*given, space.variables[i].path);
      if (value == nullptr) continue;
      const size_t place = PlaceOfValue(space, i, *value);
      const auto& values = space.variables[i].domain.values;
      // The value of a choice that has parameters inside keeps its places for them.
      drawn[i] = {place < values.size() ? values[place] : *value, place};
    }
  }
  Json params = ConfigurationOf(space, drawn);
  if (given != nullptr) MergeInto(params, *given);
  return params;
}

}  // namespace rt
