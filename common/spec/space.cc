#include "common/spec/space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/conditions.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

using Kind = Domain::Kind;

struct Primitive {
  Kind kind;
  size_t arguments;  // 0: a list of any values.
  bool log;
  bool quantised;
  bool integer;
};

const std::map<std::string, Primitive, std::less<>>& Primitives() {
  static const std::map<std::string, Primitive, std::less<>> table = {
      {"uniform", {Kind::kUniform, 2, false, false, false}},
      {"quniform", {Kind::kQUniform, 3, false, true, false}},
      {"loguniform", {Kind::kLogUniform, 2, true, false, false}},
      {"qloguniform", {Kind::kQLogUniform, 3, true, true, false}},
      {"randn", {Kind::kNormal, 2, false, false, false}},
      {"qrandn", {Kind::kQNormal, 3, false, true, false}},
      {"randint", {Kind::kRandInt, 2, false, false, true}},
      {"qrandint", {Kind::kQRandInt, 3, false, true, true}},
      {"lograndint", {Kind::kLogRandInt, 2, true, false, true}},
      {"qlograndint", {Kind::kQLogRandInt, 3, true, true, true}},
      {"choice", {Kind::kChoice, 0, false, false, false}},
      {"grid", {Kind::kGrid, 0, false, false, false}},
      {"grid_search", {Kind::kGrid, 0, false, false, false}},
  };
  return table;
}

bool IsMultiple(double value, double q) {
  double ratio = value / q;
  return std::abs(ratio - std::round(ratio)) <= 1e-9 * std::max(1.0, std::abs(ratio));
}

absl::Status CheckBounds(const Domain& domain, const Primitive& primitive,
                         std::string_view path) {
  bool normal = domain.kind == Kind::kNormal || domain.kind == Kind::kQNormal;
  if (normal && domain.upper < 0) return SpecError(path, "the standard deviation is negative");
  if (primitive.quantised && domain.q <= 0) return SpecError(path, "q must be above 0");
  if (normal) return absl::OkStatus();
  if (primitive.log && domain.lower <= 0)
    return SpecError(path, "a logarithmic range needs a lower bound above 0");
  bool may_equal = primitive.quantised;
  if (domain.lower > domain.upper || (domain.lower == domain.upper && !may_equal))
    return SpecError(path, "the lower bound must be below the upper bound");
  if (domain.kind == Kind::kQUniform || domain.kind == Kind::kQLogUniform) {
    if (!IsMultiple(domain.lower, domain.q) || !IsMultiple(domain.upper, domain.q))
      return SpecError(path, "both bounds must be multiples of q");
  }
  if (std::floor(domain.upper / std::max(domain.q, 1e-300)) <
          std::ceil(domain.lower / std::max(domain.q, 1e-300)) &&
      primitive.quantised)
    return SpecError(path, "no multiple of q lies between the bounds");
  return absl::OkStatus();
}

absl::StatusOr<Domain> ParseDomain(const Primitive& primitive, const std::string& name,
                                   const Json& arguments, std::string_view path) {
  Domain domain{.kind = primitive.kind};
  if (!arguments.is_array()) return SpecError(path, name + " needs a list");
  const Json::Array& list = arguments.array();
  if (primitive.arguments == 0) {
    if (list.empty()) return SpecError(path, name + " needs at least one value");
    domain.values = list;
    return domain;
  }
  if (list.size() != primitive.arguments)
    return SpecError(path, name + " needs " + std::to_string(primitive.arguments) + " numbers");
  double numbers[3] = {0, 0, 0};
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string argument = name + ": argument " + std::to_string(i + 1);
    if (!list[i].is_number() || !std::isfinite(list[i].AsDouble()))
      return SpecError(path, argument + " must be a finite number");
    numbers[i] = list[i].AsDouble();
    if (primitive.integer && (numbers[i] != std::floor(numbers[i]) || std::abs(numbers[i]) > 9e15))
      return SpecError(path, argument + " must be a whole number between -9e15 and 9e15");
  }
  domain.lower = numbers[0];
  domain.upper = numbers[1];
  domain.q = numbers[2];
  RT_RETURN_IF_ERROR(CheckBounds(domain, primitive, path));
  return domain;
}

// Collects the variables. Where they depend on others, `pending` says on which, until all are
// known.
struct Walk {
  Space space;
  std::vector<PathStep> path;
  std::vector<size_t> at;
  std::vector<std::string> where;            // The place in the text, for errors.
  std::vector<PendingCondition> conditions;  // Of the maps that the walk is inside of.
  std::vector<Condition> inside;             // The choices, by the places of their values.
  std::vector<std::vector<PendingCondition>> pending, pending_optional;

  std::string Here() const { return Join(where, "/"); }

  absl::StatusOr<Json> Visit(const Json& json) {
    if (where.size() > 33) return SpecError(Here(), "is nested more than 32 levels deep");
    if (json.is_array()) return VisitArray(json.array());
    if (!json.is_object()) return json;
    const Json::Object& object = json.object();
    const Json* condition = path.empty() ? nullptr : json.Find("if");
    const bool is_conditional = condition != nullptr && condition->is_object();
    if (is_conditional) return VisitConditional(object, *condition);
    if (object.size() == 1 && !path.empty()) {
      const auto& [name, arguments] = object.front();
      if (name == "constant") return arguments;
      if (name == "sample_from")
        return SpecError(Here(), "sample_from runs in the driver and is not supported yet",
                         "draw from a fixed domain, and compute the rest in the trial");
      auto primitive = Primitives().find(name);
      if (primitive != Primitives().end()) return VisitVariable(primitive->second, name, arguments);
    }
    return VisitObject(object);
  }

  absl::StatusOr<Json> VisitVariable(const Primitive& primitive, const std::string& name,
                                     const Json& arguments) {
    RT_ASSIGN_OR_RETURN(Domain domain, ParseDomain(primitive, name, arguments, Here()));
    if (primitive.kind == Kind::kGrid && !(conditions.empty() && inside.empty()))
      return SpecError(Here(), "a grid cannot depend on another parameter", "write choice");
    const size_t number = space.variables.size();
    space.variables.push_back({path, std::move(domain), inside, at});
    pending.push_back(conditions);
    if (primitive.kind != Kind::kChoice) return Json();
    where.push_back(name);
    for (size_t place = 0; place < arguments.array().size(); ++place) {
      RT_ASSIGN_OR_RETURN(Json value, VisitValue(number, place, arguments.array()[place]));
      space.variables[number].domain.values[place] = std::move(value);
    }
    where.pop_back();
    return Json();
  }

  // A value of a choice; what has no variables inside is what it is.
  absl::StatusOr<Json> VisitValue(size_t number, size_t place, const Json& value) {
    if (!value.is_object() && !value.is_array()) return value;
    if (value.is_object() && value.object().size() == 1 && value.Find("constant") != nullptr)
      return *value.Find("constant");
    const size_t known = space.variables.size();
    where.push_back(std::to_string(place));
    inside.push_back({number, {place}});
    const Json* condition = value.is_object() ? value.Find("if") : nullptr;
    const bool depends = condition != nullptr && condition->is_object();
    RT_ASSIGN_OR_RETURN(Json visited, Visit(depends ? WithoutIf(value.object()) : value));
    if (depends && space.variables.size() > known)
      return SpecError(Here() + "/if", "a value of a choice cannot depend on another parameter",
                       "give the whole choice a condition");
    inside.pop_back();
    where.pop_back();
    return space.variables.size() > known ? std::move(visited) : value;
  }

  // {"if": …} beside a variable or the members of a map.
  absl::StatusOr<Json> VisitConditional(const Json::Object& object, const Json& condition) {
    if (!std::holds_alternative<std::string>(path.back()))
      return SpecError(Here() + "/if", "an item of a list cannot be left out",
                       "give the whole list a condition");
    const Json rest = WithoutIf(object);
    const size_t outer = conditions.size();
    for (const auto& [name, wanted] : condition.object())
      conditions.push_back({name, wanted, Here() + "/if/" + name});
    if (conditions.size() == outer)
      return SpecError(Here() + "/if", "names no parameter", "write if: {NAME: VALUE}");
    space.optional.push_back({path, inside, inside, at});
    pending_optional.push_back(conditions);
    RT_ASSIGN_OR_RETURN(Json visited, Visit(rest));
    conditions.resize(outer);
    return visited;
  }

  static Json WithoutIf(const Json::Object& object) {
    Json rest = Json::MakeObject();
    for (const auto& [key, value] : object)
      if (key != "if") rest.object().emplace_back(key, value);
    return rest;
  }

  absl::StatusOr<Json> VisitArray(const Json::Array& array) {
    Json out = Json::MakeArray();
    for (size_t i = 0; i < array.size(); ++i) {
      Enter(i, i, std::to_string(i));
      RT_ASSIGN_OR_RETURN(Json item, Visit(array[i]));
      Leave();
      out.Append(std::move(item));
    }
    return out;
  }

  absl::StatusOr<Json> VisitObject(const Json::Object& object) {
    Json out = Json::MakeObject();
    for (const auto& [key, value] : object) {
      Enter(key, out.object().size(), key);
      RT_ASSIGN_OR_RETURN(Json item, Visit(value));
      Leave();
      out.object().emplace_back(key, std::move(item));
    }
    return out;
  }

  void Enter(PathStep step, size_t index, std::string name) {
    path.push_back(std::move(step));
    at.push_back(index);
    where.push_back(std::move(name));
  }
  void Leave() {
    path.pop_back();
    at.pop_back();
    where.pop_back();
  }
};

}  // namespace

const std::vector<std::string>& DistributionNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, primitive] : Primitives()) all.push_back(name);
    return all;
  }();
  return names;
}

std::string PathText(const std::vector<PathStep>& path) {
  std::string text;
  for (const PathStep& step : path) {
    if (!text.empty()) text += "/";
    if (const auto* key = std::get_if<std::string>(&step)) {
      text += *key;
    } else {
      text += std::to_string(std::get<size_t>(step));
    }
  }
  return text;
}

absl::StatusOr<Space> ParseSpace(const Json& json, std::string_view path) {
  if (!json.is_object()) return SpecError(path, "must be a map of parameters");
  Walk walk{.where = {std::string(path)}};
  RT_ASSIGN_OR_RETURN(walk.space.skeleton, walk.Visit(json));
  Space& space = walk.space;
  RT_RETURN_IF_ERROR(ResolveConditions(walk.pending, walk.pending_optional, space));
  for (const Variable& variable : space.variables) {
    if (variable.domain.kind != Kind::kGrid) continue;
    size_t size = variable.domain.values.size();
    if (space.grid_points > 1'000'000'000'000u / size)
      return SpecError(path, "the grid has more than 1e12 points");
    space.grid_points *= size;
  }
  return std::move(space);
}

void PlaceValue(Json& tree, const Variable& variable, Json value) {
  Json* place = &tree;
  for (size_t index : variable.at)
    place = place->is_object() ? &place->object()[index].second : &place->array()[index];
  *place = std::move(value);
}

}  // namespace rt
