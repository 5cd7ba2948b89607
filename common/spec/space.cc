#include "common/spec/space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/status.h"
#include "common/base/strings.h"
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
    if (!list[i].is_number() || !std::isfinite(list[i].AsDouble()))
      return SpecError(path, name + ": argument " + std::to_string(i + 1) + " is not a number");
    numbers[i] = list[i].AsDouble();
    if (primitive.integer && (numbers[i] != std::floor(numbers[i]) || std::abs(numbers[i]) > 9e15))
      return SpecError(path, name + ": argument " + std::to_string(i + 1) + " is not an integer");
  }
  domain.lower = numbers[0];
  domain.upper = numbers[1];
  domain.q = numbers[2];
  RT_RETURN_IF_ERROR(CheckBounds(domain, primitive, path));
  return domain;
}

struct Walk {
  Space space;
  std::vector<PathStep> path;
  std::vector<size_t> at;
  std::string root;

  std::string Here() const { return path.empty() ? root : root + "/" + PathText(path); }

  absl::StatusOr<Json> Visit(const Json& json) {
    if (path.size() > 32) return SpecError(Here(), "is nested more than 32 levels deep");
    if (json.is_array()) return VisitArray(json.array());
    if (!json.is_object()) return json;
    const Json::Object& object = json.object();
    if (object.size() == 1 && !path.empty()) {
      const auto& [name, arguments] = object.front();
      if (name == "constant") return arguments;
      if (name == "sample_from")
        return SpecError(Here(), "sample_from runs in the driver and is not supported yet",
                         "draw from a fixed domain, and compute the rest in the trial");
      auto primitive = Primitives().find(name);
      if (primitive != Primitives().end()) {
        RT_ASSIGN_OR_RETURN(Domain domain,
                            ParseDomain(primitive->second, name, arguments, Here()));
        space.variables.push_back({path, std::move(domain), at});
        return Json();
      }
    }
    return VisitObject(object);
  }

  absl::StatusOr<Json> VisitArray(const Json::Array& array) {
    Json out = Json::MakeArray();
    for (size_t i = 0; i < array.size(); ++i) {
      path.emplace_back(i);
      at.push_back(i);
      RT_ASSIGN_OR_RETURN(Json item, Visit(array[i]));
      path.pop_back();
      at.pop_back();
      out.Append(std::move(item));
    }
    return out;
  }

  absl::StatusOr<Json> VisitObject(const Json::Object& object) {
    Json out = Json::MakeObject();
    for (const auto& [key, value] : object) {
      path.emplace_back(key);
      at.push_back(out.object().size());
      RT_ASSIGN_OR_RETURN(Json item, Visit(value));
      path.pop_back();
      at.pop_back();
      out.object().emplace_back(key, std::move(item));
    }
    return out;
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
  Walk walk{.root = std::string(path)};
  RT_ASSIGN_OR_RETURN(walk.space.skeleton, walk.Visit(json));
  Space& space = walk.space;
  std::stable_sort(space.variables.begin(), space.variables.end(),
                   [](const Variable& a, const Variable& b) { return a.path < b.path; });
  for (const Variable& variable : space.variables) {
    if (variable.domain.kind != Kind::kGrid) continue;
    size_t size = variable.domain.values.size();
    if (space.grid_points > 1'000'000'000'000u / size)
      return SpecError(path, "the grid has more than 1e12 points");
    space.grid_points *= size;
  }
  return std::move(space);
}

bool Locate(const Json& skeleton, Variable& variable) {
  const Json* place = &skeleton;
  variable.at.clear();
  for (const PathStep& step : variable.path) {
    size_t index = 0;
    if (const auto* key = std::get_if<std::string>(&step)) {
      if (!place->is_object()) return false;
      const Json::Object& members = place->object();
      while (index < members.size() && members[index].first != *key) ++index;
      if (index == members.size()) return false;
      place = &members[index].second;
    } else {
      index = std::get<size_t>(step);
      if (!place->is_array() || index >= place->array().size()) return false;
      place = &place->array()[index];
    }
    variable.at.push_back(index);
  }
  return !variable.path.empty();
}

void PlaceValue(Json& tree, const Variable& variable, Json value) {
  Json* place = &tree;
  for (size_t index : variable.at)
    place = place->is_object() ? &place->object()[index].second : &place->array()[index];
  *place = std::move(value);
}

}  // namespace rt
