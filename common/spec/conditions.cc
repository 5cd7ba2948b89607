#include "common/spec/conditions.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

using Kind = Domain::Kind;

bool IsListed(const Domain& domain) {
  return domain.kind == Kind::kChoice || domain.kind == Kind::kGrid;
}

// 1 and 1.0 are one value: a configuration may have passed through another language.
bool IsSameValue(const Json& a, const Json& b) {
  return a == b || (a.is_number() && b.is_number() && a.AsDouble() == b.AsDouble());
}

// {">=": n, "<=": n}; nullopt: it is not of this form.
std::optional<Condition> BoundsOf(const Json& wanted) {
  if (!wanted.is_object() || wanted.object().empty()) return std::nullopt;
  Condition bounds;
  for (const auto& [comparison, number] : wanted.object()) {
    if (!number.is_number()) return std::nullopt;
    if (comparison == ">=") bounds.at_least = number.AsDouble();
    else if (comparison == "<=") bounds.at_most = number.AsDouble();
    else return std::nullopt;
  }
  return bounds;
}

bool IsWithin(const Condition& bounds, const Json& value) {
  return value.is_number() && value.AsDouble() >= bounds.at_least &&
         value.AsDouble() <= bounds.at_most;
}

absl::Status NeverHas(const PendingCondition& pending, const Domain& domain, const Json& value) {
  std::vector<std::string> values;
  for (const Json& each : domain.values) values.push_back(each.Dump());
  return SpecError(pending.where,
                   "'" + Excerpt(pending.name) + "' is never " + Excerpt(value.Dump()),
                   "its values are " + Excerpt(Join(values, ", ")));
}

absl::StatusOr<Condition> OfListed(const PendingCondition& pending, const Domain& domain) {
  const std::optional<Condition> bounds = BoundsOf(pending.wanted);
  Condition condition;
  const auto add = [&](auto&& is_wanted) {
    const size_t known = condition.chosen.size();
    for (size_t place = 0; place < domain.values.size(); ++place)
      if (is_wanted(domain.values[place])) condition.chosen.push_back(place);
    return condition.chosen.size() > known;
  };
  if (bounds.has_value()) {
    if (add([&](const Json& value) { return IsWithin(*bounds, value); })) return condition;
    return NeverHas(pending, domain, pending.wanted);
  }
  if (add([&](const Json& value) { return IsSameValue(value, pending.wanted); })) return condition;
  if (!pending.wanted.is_array() || pending.wanted.array().empty())
    return NeverHas(pending, domain, pending.wanted);
  for (const Json& wanted : pending.wanted.array())
    if (!add([&](const Json& value) { return IsSameValue(value, wanted); }))
      return NeverHas(pending, domain, wanted);
  std::sort(condition.chosen.begin(), condition.chosen.end());
  return condition;
}

absl::StatusOr<Condition> OfNumber(const PendingCondition& pending, const Domain& domain) {
  std::optional<Condition> bounds = BoundsOf(pending.wanted);
  if (!bounds.has_value() && pending.wanted.is_number())
    bounds = {.at_least = pending.wanted.AsDouble(), .at_most = pending.wanted.AsDouble()};
  if (!bounds.has_value())
    return SpecError(pending.where, "must be a number, or bounds such as {\">=\": 2}");
  const bool is_normal = domain.kind == Kind::kNormal || domain.kind == Kind::kQNormal;
  if (!is_normal && (bounds->at_least > domain.upper || bounds->at_most < domain.lower))
    return SpecError(
        pending.where, "'" + Excerpt(pending.name) + "' never lies there",
        "its range is from " + Json(domain.lower).Dump() + " to " + Json(domain.upper).Dump());
  return *bounds;
}

// The first parameter in the map of that name; empty: it has none.
std::string NameIn(const std::string& map, const std::vector<std::string>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return name.starts_with(map + "/");
  });
  return found == names.end() ? "" : Excerpt(*found);
}

absl::StatusOr<Condition> Resolve(const PendingCondition& pending, const Space& space) {
  std::vector<size_t> found;
  std::vector<std::string> names;
  for (size_t i = 0; i < space.variables.size(); ++i) {
    names.push_back(PathText(space.variables[i].path));
    if (names.back() == pending.name) found.push_back(i);
  }
  if (found.empty()) {
    const std::string hint = DidYouMean(pending.name, names);
    const Json* constant = FindFlat(space.skeleton, pending.name);
    const std::string inside =
        constant != nullptr && constant->is_object() ? NameIn(pending.name, names) : "";
    return SpecError(pending.where,
                     "no parameter that varies is called '" + Excerpt(pending.name) + "'",
                     !inside.empty() ? "it is a map: name a parameter in it, such as " + inside
                     : constant != nullptr ? "it is a constant: leave the condition out"
                     : hint.empty()        ? "the space has: " + Excerpt(Join(names, ", "))
                                           : hint);
  }
  if (found.size() > 1)
    return SpecError(pending.where,
                     "several values of a choice have a parameter '" + Excerpt(pending.name) + "'",
                     "give them different names");
  const Domain& domain = space.variables[found.front()].domain;
  RT_ASSIGN_OR_RETURN(Condition condition,
                      IsListed(domain) ? OfListed(pending, domain) : OfNumber(pending, domain));
  condition.variable = found.front();
  return condition;
}

// The order of Space: how many variables deep what a variable depends on goes, found on the way.
class Order {
 public:
  explicit Order(Space& space)
      : space_(space), depth_(space.variables.size(), 0), state_(space.variables.size(), kNew) {}

  // False: it depends on itself.
  bool Close(size_t number) {
    if (state_[number] == kDone) return true;
    if (state_[number] == kOpen) return false;
    state_[number] = kOpen;
    if (!Close(space_.variables[number].conditions, depth_[number])) return false;
    state_[number] = kDone;
    return true;
  }
  // Adds the conditions of the variables that these name.
  bool Close(std::vector<Condition>& conditions, size_t& depth) {
    const size_t direct = conditions.size();
    for (size_t i = 0; i < direct; ++i) {
      const size_t parent = conditions[i].variable;
      if (!Close(parent)) return false;
      depth = std::max(depth, depth_[parent] + 1);
      for (const Condition& further : space_.variables[parent].conditions)
        conditions.push_back(further);
    }
    return true;
  }
  void Sort() {
    std::vector<size_t> order(depth_.size()), place(depth_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (depth_[a] != depth_[b]) return depth_[a] < depth_[b];
      return space_.variables[a].path < space_.variables[b].path;
    });
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<Variable> sorted;
    for (const size_t i : order) sorted.push_back(std::move(space_.variables[i]));
    space_.variables = std::move(sorted);
    const auto rename = [&](std::vector<Condition>& conditions) {
      for (Condition& each : conditions) each.variable = place[each.variable];
    };
    for (Variable& variable : space_.variables) rename(variable.conditions);
    for (OptionalMember& member : space_.optional) {
      rename(member.inside);
      rename(member.conditions);
    }
  }

 private:
  enum State { kNew, kOpen, kDone };
  Space& space_;
  std::vector<size_t> depth_;
  std::vector<State> state_;
};

}  // namespace

absl::Status ResolveConditions(const std::vector<std::vector<PendingCondition>>& of_variables,
                               const std::vector<std::vector<PendingCondition>>& of_optional,
                               Space& space) {
  const auto add = [&](const std::vector<PendingCondition>& pending,
                       std::vector<Condition>& conditions) -> absl::Status {
    for (const PendingCondition& each : pending) {
      RT_ASSIGN_OR_RETURN(Condition condition, Resolve(each, space));
      conditions.push_back(std::move(condition));
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < space.variables.size(); ++i)
    RT_RETURN_IF_ERROR(add(of_variables[i], space.variables[i].conditions));
  for (size_t i = 0; i < space.optional.size(); ++i)
    RT_RETURN_IF_ERROR(add(of_optional[i], space.optional[i].conditions));
  Order order(space);
  for (size_t i = 0; i < space.variables.size(); ++i) {
    if (order.Close(i)) continue;
    const bool has_own = !of_variables[i].empty();
    return SpecError(has_own ? of_variables[i].back().where : "space",
                     "'" + PathText(space.variables[i].path) + "' depends on itself");
  }
  size_t unused = 0;
  for (OptionalMember& member : space.optional) {
    (void)order.Close(member.conditions, unused);
    (void)order.Close(member.inside, unused);
  }
  order.Sort();
  return absl::OkStatus();
}

bool Holds(const Condition& condition, const Json& value, size_t place) {
  const std::vector<size_t>& chosen = condition.chosen;
  if (chosen.empty()) return IsWithin(condition, value);
  return std::find(chosen.begin(), chosen.end(), place) != chosen.end();
}

bool Hold(const std::vector<Condition>& conditions, const std::vector<Drawn>& drawn) {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    const Drawn& of = drawn[condition.variable];
    return Holds(condition, of.value, of.place);
  });
}

bool Space::IsConditional() const {
  return std::any_of(variables.begin(), variables.end(),
                     [](const Variable& variable) { return !variable.conditions.empty(); });
}

Json ConfigurationOf(const Space& space, const std::vector<Drawn>& drawn) {
  Json params = space.skeleton;
  for (size_t i = 0; i < space.variables.size(); ++i)
    if (Hold(space.variables[i].conditions, drawn))
      PlaceValue(params, space.variables[i], drawn[i].value);
  if (space.optional.empty()) return params;
  std::vector<const OptionalMember*> absent;
  for (const OptionalMember& member : space.optional)
    if (Hold(member.inside, drawn) && !Hold(member.conditions, drawn)) absent.push_back(&member);
  // The last first, so that the places of the others stay.
  std::sort(absent.begin(), absent.end(),
            [](const OptionalMember* a, const OptionalMember* b) { return b->at < a->at; });
  for (const OptionalMember* member : absent) {
    Json* place = &params;
    for (size_t i = 0; i + 1 < member->at.size(); ++i)
      place = place->is_object() ? &place->object()[member->at[i]].second
                                 : &place->array()[member->at[i]];
    Json::Object& members = place->object();
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(member->at.back()));
  }
  return params;
}

namespace {

// Whether `value` may have come from the template: they differ only where variables go, and in
// members that may be absent. `at`: of the template.
bool Fits(const Space& space, const Condition& choice, const Json& form, const Json& value,
          std::vector<size_t>& at) {
  const auto is_of_value = [&](const std::vector<Condition>& conditions) {
    return std::any_of(conditions.begin(), conditions.end(), [&](const Condition& each) {
      return each.variable == choice.variable && each.chosen == choice.chosen;
    });
  };
  for (const Variable& variable : space.variables)
    if (variable.at == at && is_of_value(variable.conditions)) {
      if (IsListed(variable.domain) || variable.domain.kind == Kind::kNormal ||
          variable.domain.kind == Kind::kQNormal)
        return true;
      return value.is_number() && value.AsDouble() >= variable.domain.lower &&
             value.AsDouble() <= variable.domain.upper;
    }
  if (form.is_array() && value.is_array()) {
    if (form.array().size() != value.array().size()) return false;
    for (size_t i = 0; i < form.array().size(); ++i) {
      at.push_back(i);
      const bool fits = Fits(space, choice, form.array()[i], value.array()[i], at);
      at.pop_back();
      if (!fits) return false;
    }
    return true;
  }
  if (!form.is_object() || !value.is_object()) return IsSameValue(form, value);
  size_t seen = 0;
  for (size_t i = 0; i < form.object().size(); ++i) {
    const auto& [key, inner] = form.object()[i];
    at.push_back(i);
    const Json* found = value.Find(key);
    const bool may_be_absent = std::any_of(
        space.optional.begin(), space.optional.end(),
        [&](const OptionalMember& each) { return each.at == at && is_of_value(each.inside); });
    const bool fits = found == nullptr ? may_be_absent : Fits(space, choice, inner, *found, at);
    at.pop_back();
    if (!fits) return false;
    seen += found == nullptr ? 0 : 1;
  }
  return seen == value.object().size();
}

}  // namespace

size_t PlaceOfValue(const Space& space, size_t variable, const Json& value) {
  const Domain& domain = space.variables[variable].domain;
  for (size_t place = 0; place < domain.values.size(); ++place) {
    std::vector<size_t> at = space.variables[variable].at;
    if (Fits(space, {variable, {place}}, domain.values[place], value, at)) return place;
  }
  return domain.values.size();
}

const Json* ValueAtPath(const Json& tree, const std::vector<PathStep>& path) {
  const Json* place = &tree;
  for (const PathStep& step : path) {
    if (const auto* key = std::get_if<std::string>(&step)) {
      place = place->Find(*key);
      if (place == nullptr) return nullptr;
    } else {
      const size_t index = std::get<size_t>(step);
      if (!place->is_array() || index >= place->array().size()) return nullptr;
      place = &place->array()[index];
    }
  }
  return place;
}

bool Locate(const Space& space, const std::vector<PathStep>& path,
            const std::vector<Condition>& conditions, std::vector<size_t>& at) {
  const Json* place = &space.skeleton;
  // Into the value of the choice that stands here, if it is one of `conditions`.
  const auto enter = [&](size_t steps) {
    for (size_t depth = 0; depth <= conditions.size(); ++depth) {
      for (const Condition& each : conditions) {
        if (each.variable >= space.variables.size() || each.chosen.size() != 1) continue;
        const Variable& choice = space.variables[each.variable];
        const bool is_here = choice.path.size() == steps &&
                             std::equal(choice.path.begin(), choice.path.end(), path.begin()) &&
                             place->is_null() && each.chosen[0] < choice.domain.values.size();
        if (!is_here || place == &choice.domain.values[each.chosen[0]]) continue;
        place = &choice.domain.values[each.chosen[0]];
        break;
      }
    }
  };
  at.clear();
  for (size_t i = 0; i < path.size(); ++i) {
    enter(i);
    size_t index = 0;
    if (const auto* key = std::get_if<std::string>(&path[i])) {
      if (!place->is_object()) return false;
      const Json::Object& members = place->object();
      while (index < members.size() && members[index].first != *key) ++index;
      if (index == members.size()) return false;
      place = &members[index].second;
    } else {
      index = std::get<size_t>(path[i]);
      if (!place->is_array() || index >= place->array().size()) return false;
      place = &place->array()[index];
    }
    at.push_back(index);
  }
  return !path.empty();
}

}  // namespace rt
