#include "cli/render/plan_space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/render/nouns.h"
#include "cli/render/table.h"
#include "common/base/strings.h"

namespace rt {
namespace {

using Kind = Domain::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kUniform: return "uniform";
    case Kind::kQUniform: return "quniform";
    case Kind::kLogUniform: return "loguniform";
    case Kind::kQLogUniform: return "qloguniform";
    case Kind::kNormal: return "randn";
    case Kind::kQNormal: return "qrandn";
    case Kind::kRandInt: return "randint";
    case Kind::kQRandInt: return "qrandint";
    case Kind::kLogRandInt: return "lograndint";
    case Kind::kQLogRandInt: return "qlograndint";
    case Kind::kChoice: return "choice";
    case Kind::kGrid: return "grid";
  }
  return "?";
}

Json ParameterOf(const std::string& name, const Domain& domain) {
  const bool listed = domain.kind == Kind::kChoice || domain.kind == Kind::kGrid;
  auto number = [&](double value) { return listed ? Json() : Json(value); };
  return Json::MakeObject({{"name", name},
                           {"kind", NameOf(domain.kind)},
                           {"lower", number(domain.lower)},
                           {"upper", number(domain.upper)},
                           {"q", domain.q > 0 ? Json(domain.q) : Json()},
                           {"values", listed ? Json(domain.values) : Json()},
                           {"if", Json()}});
}

// "optimizer is sgd or rmsprop, layers is at least 2".
Json ConditionsText(const std::vector<Condition>& conditions, const Space& space) {
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    const Variable& variable = space.variables[condition.variable];
    std::string text = PathText(variable.path) + " is ";
    std::vector<std::string> parts;
    for (const size_t place : condition.chosen) {
      const Json& value = variable.domain.values[place];
      parts.push_back(value.is_object() || value.is_array() ? "value " + std::to_string(place + 1)
                                                            : CellText(&value));
    }
    if (!parts.empty()) {
      text += Join(parts, " or ");
    } else {
      const Json least(condition.at_least), most(condition.at_most);
      if (std::isfinite(condition.at_least)) parts.push_back("at least " + CellText(&least));
      if (std::isfinite(condition.at_most)) parts.push_back("at most " + CellText(&most));
      text += Join(parts, " and ");
    }
    texts.push_back(std::move(text));
  }
  return texts.empty() ? Json() : Json(Join(texts, ", "));
}

// The constants among the leaves; a list is one, unless it holds variables.
void AddConstants(const Json& value, const std::string& path, std::map<std::string, Json>& all) {
  auto below = [&](const std::string& key) { return path.empty() ? key : path + "/" + key; };
  if (value.is_object() && !(value.object().empty() && !path.empty())) {
    for (const auto& [key, inner] : value.object()) AddConstants(inner, below(key), all);
    return;
  }
  const bool holds_variables =
      all.lower_bound(path + "/") != all.end() && all.lower_bound(path + "/")->first.starts_with(
                                                      path + "/");
  if (value.is_array() && holds_variables) {
    for (size_t i = 0; i < value.array().size(); ++i)
      AddConstants(value.array()[i], below(std::to_string(i)), all);
    return;
  }
  if (path.empty() || all.contains(path)) return;
  all[path] = Json::MakeObject({{"name", path},
                                {"kind", "constant"},
                                {"lower", Json()},
                                {"upper", Json()},
                                {"q", Json()},
                                {"values", Json(Json::Array{value})},
                                {"if", Json()}});
}

std::string ValuesText(const Json& values) {
  std::vector<std::string> texts;
  for (const Json& value : values.array()) texts.push_back(CellText(&value));
  return Join(texts, ", ");
}

std::string TextOfParameter(const Json& parameter) {
  const Json* values = parameter.Find("values");
  if (values != nullptr && values->is_array()) return ValuesText(*values);
  const bool normal = parameter.GetString("kind").ends_with("randn");
  std::string text = (normal ? "mean " : "from ") + CellText(parameter.Find("lower")) +
                     (normal ? ", deviation " : " to ") + CellText(parameter.Find("upper"));
  const Json* q = parameter.Find("q");
  return q == nullptr || q->is_null() ? text : text + ", in steps of " + CellText(q);
}

}  // namespace

Json PlanSpace(const Space& space) {
  std::map<std::string, Json> all;
  for (const Variable& variable : space.variables) {
    const std::string name = PathText(variable.path);
    std::string key = name;
    while (all.contains(key)) key += ' ';  // The values of a choice may have one of this name each.
    all[key] = ParameterOf(name, variable.domain);
    all[key].Set("if", ConditionsText(variable.conditions, space));
  }
  AddConstants(space.skeleton, "", all);
  Json list = Json::MakeArray();
  for (auto& [name, parameter] : all) list.Append(std::move(parameter));
  return list;
}

std::string TextOfSpace(const Json& plan) {
  std::string text;
  const Json* space = plan.Find("space");
  if (space != nullptr && space->is_array() && !space->array().empty()) {
    const bool has_conditions =
        std::any_of(space->array().begin(), space->array().end(),
                    [](const Json& parameter) { return !parameter.GetString("if").empty(); });
    std::vector<std::string> header = {"PARAMETER", "DISTRIBUTION", "VALUES"};
    if (has_conditions) header.push_back("IF");
    Table table(header);
    for (const Json& parameter : space->array()) {
      std::vector<std::string> row = {parameter.GetString("name"), parameter.GetString("kind"),
                                      TextOfParameter(parameter)};
      if (has_conditions) row.push_back(parameter.GetString("if"));
      table.Add(std::move(row));
    }
    text += "\n" + table.Render();
  }
  const Json* notes = plan.Find("notes");
  if (notes == nullptr || !notes->is_array()) return text;
  for (const Json& note : notes->array()) text += "note: " + EscapeControl(note.AsString()) + "\n";
  return text;
}

}  // namespace rt
