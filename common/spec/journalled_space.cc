#include "common/spec/journalled_space.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/spec/journalled_names.h"

namespace rt {
namespace {

using Kind = Domain::Kind;
using Reader = JournalledReader;

std::vector<PathStep> PathFrom(Reader& reader) {
  std::vector<PathStep> path;
  for (const Json& step : reader.List("path")) {
    if (step.is_string()) path.emplace_back(step.AsString());
    else if (step.is_int() && step.AsInt() >= 0)
      path.emplace_back(static_cast<size_t>(step.AsInt()));
  }
  return path;
}

// False: one of them is about no variable of `space`.
bool ConditionsFrom(Reader& reader, const std::string& key, const Space& space, Warnings& warnings,
                    std::vector<Condition>& conditions) {
  bool works = true;
  for (const Json& item : reader.List(key)) {
    Reader one(item, reader.Below(key), warnings);
    Condition& condition = conditions.emplace_back();
    condition.variable = space.variables.size();
    one.Read("variable", condition.variable);
    for (const Json& place : one.List("chosen"))
      if (place.is_int() && place.AsInt() >= 0)
        condition.chosen.push_back(static_cast<size_t>(place.AsInt()));
    one.Read("at_least", condition.at_least);
    one.Read("at_most", condition.at_most);
    works = works && condition.variable < space.variables.size();
  }
  return works;
}

// False: nothing can be drawn from it.
bool VariableFrom(const Json& json, const Space& space, Warnings& warnings, Variable& variable) {
  Reader reader(json, "space/variables", warnings);
  variable.path = PathFrom(reader);
  std::string kind;
  reader.Read("kind", kind);
  reader.Read("lower", variable.domain.lower);
  reader.Read("upper", variable.domain.upper);
  reader.Read("q", variable.domain.q);
  variable.domain.values = reader.List("values");
  const auto& names = KindNames();
  const auto known = std::find_if(names.begin(), names.end(),
                                  [&](const auto& item) { return item.second == kind; });
  if (known != names.end()) variable.domain.kind = known->first;
  const bool lists = variable.domain.kind == Kind::kChoice || variable.domain.kind == Kind::kGrid;
  const bool works = known != names.end() &&
                     ConditionsFrom(reader, "conditions", space, warnings, variable.conditions) &&
                     Locate(space, variable.path, variable.conditions, variable.at) &&
                     !(lists && variable.domain.values.empty());
  if (!works) reader.Warn("", "has a domain that this release cannot draw from");
  return works;
}

}  // namespace

bool SpaceFrom(const Json& json, Warnings& warnings, Space& space) {
  Reader reader(json, "space", warnings);
  if (const Json* skeleton = reader.Find("skeleton"); skeleton != nullptr && skeleton->is_object())
    space.skeleton = *skeleton;
  else reader.Warn("skeleton", "is not a map");
  bool whole = true;
  for (const Json& item : reader.List("variables")) {
    Variable variable;
    const bool works = VariableFrom(item, space, warnings, variable);
    whole = whole && works;
    if (!works) continue;
    if (variable.domain.kind == Kind::kGrid) space.grid_points *= variable.domain.values.size();
    space.variables.push_back(std::move(variable));
  }
  for (const Json& item : reader.List("optional")) {
    Reader one(item, "space/optional", warnings);
    OptionalMember member{.path = PathFrom(one)};
    const bool works = whole && ConditionsFrom(one, "inside", space, warnings, member.inside) &&
                       ConditionsFrom(one, "conditions", space, warnings, member.conditions) &&
                       Locate(space, member.path, member.inside, member.at);
    if (works) space.optional.push_back(std::move(member));
    else one.Warn("", "cannot be left out by this release");
    whole = whole && works;
  }
  return whole;
}

}  // namespace rt
