#include "common/spec/algorithm.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/experiment_spec.h"
#include "common/spec/space.h"

namespace rt {
namespace {

using Type = AlgorithmOption::Type;

std::string_view NounOf(AlgorithmKind kind) {
  return kind == AlgorithmKind::kSearch ? "search algorithm" : "scheduler";
}

const char* NameOfType(Type type) {
  switch (type) {
    case Type::kNumber: return "number";
    case Type::kInteger: return "integer";
    case Type::kFlag: return "flag";
    case Type::kMetricName: return "metric name";
    case Type::kPoints: return "points";
    case Type::kEvaluated: return "results";
    case Type::kExperiments: return "experiments";
    case Type::kMutations: return "mutations";
  }
  return "";
}

std::string RangeText(const AlgorithmOption& option) {
  if (std::isinf(option.upper))
    return std::string(option.is_open ? "above " : "at least ") + FormatDouble(option.lower);
  if (option.is_open)
    return "above " + FormatDouble(option.lower) + " and at most " + FormatDouble(option.upper);
  return "between " + FormatDouble(option.lower) + " and " + FormatDouble(option.upper);
}

bool IsInRange(const AlgorithmOption& option, double value) {
  return (option.is_open ? value > option.lower : value >= option.lower) && value <= option.upper;
}

// What is wrong with the value of a number; empty: nothing.
std::string NumberProblem(const AlgorithmOption& option, const Json& value) {
  if (!value.is_number() || !std::isfinite(value.AsDouble())) return "must be a number";
  const bool is_whole = value.AsDouble() == std::floor(value.AsDouble());
  if (option.type == Type::kInteger && !(is_whole && IsInRange(option, value.AsDouble())))
    return "must be a whole number " + RangeText(option);
  return IsInRange(option, value.AsDouble()) ? "" : "must be " + RangeText(option);
}

std::string PointsProblem(const Json& value) {
  if (!value.is_array() || value.array().size() > limits::kPointsMax)
    return "must be a list of at most " + std::to_string(limits::kPointsMax) + " configurations";
  for (const Json& point : value.array())
    if (!point.is_object()) return "a point must be a map";
  return "";
}

bool IsResult(const Json& value) {
  if (value.is_array())
    return !value.array().empty() && std::all_of(value.array().begin(), value.array().end(),
                                                 [](const Json& each) { return each.HasDouble(); });
  return value.is_null() || value.HasDouble();
}

std::string EvaluatedProblem(const Json& value) {
  if (!value.is_array() || value.array().size() > limits::kPointsMax)
    return "must be a list of at most " + std::to_string(limits::kPointsMax) + " results";
  for (const Json& each : value.array()) {
    const Json *config = each.Find("config"), *result = each.Find("value");
    if (config == nullptr || !config->is_object() || result == nullptr || !IsResult(*result) ||
        each.object().size() != 2)
      return "each must be {config: {…}, value: number}, with a list of numbers for several "
             "objectives, and null for a failure";
  }
  return "";
}

std::string ExperimentsProblem(const Json& value) {
  if (!value.is_array() || value.array().size() > limits::kWarmStartMax)
    return "must be a list of at most " + std::to_string(limits::kWarmStartMax) +
           " numbers of experiments";
  for (const Json& each : value.array())
    if (!each.is_int() || each.AsInt() <= 0) return "each must be the number of an experiment";
  return "";
}

// `path` is that of the parameter: "/net/lr".
std::string MutationsProblem(const Json& value, const std::string& path) {
  if (!value.is_object()) return "must be a map of parameters";
  for (const auto& [name, mutation] : value.object()) {
    const std::string where = "the parameter '" + EscapeControl((path + "/" + name).substr(1));
    if (mutation.is_array()) {
      if (mutation.array().empty()) return where + "' has an empty list";
      continue;
    }
    if (!mutation.is_object()) return where + "' must have a list of values, or a domain";
    const absl::StatusOr<Space> space = ParseSpace(Json::MakeObject({{name, mutation}}), "");
    if (!space.ok()) return where + "': " + MessageOf(space.status());
    const auto& variables = space->variables;
    const bool is_domain = variables.size() == 1 && variables.front().path.size() == 1;
    if (is_domain && variables.front().domain.kind == Domain::Kind::kGrid)
      return where + "' must not have a grid";
    if (is_domain) continue;
    if (std::string inner = MutationsProblem(mutation, path + "/" + name); !inner.empty())
      return inner;
  }
  return "";
}

std::string ProblemOf(const AlgorithmOption& option, const Json& value) {
  switch (option.type) {
    case Type::kNumber:
    case Type::kInteger: return NumberProblem(option, value);
    case Type::kFlag: return value.is_bool() ? "" : "must be true or false";
    case Type::kMetricName:
      if (value.is_string() && !value.AsString().empty()) return "";
      return "must be the name of a reported value";
    case Type::kPoints: return PointsProblem(value);
    case Type::kEvaluated: return EvaluatedProblem(value);
    case Type::kExperiments: return ExperimentsProblem(value);
    case Type::kMutations: return MutationsProblem(value, "");
  }
  return "";
}

// The value in the one form that the normalised text has.
Json Normal(const AlgorithmOption& option, const Json& value) {
  if (option.type == Type::kNumber) return Json(value.AsDouble());
  if (option.type == Type::kInteger) return Json(static_cast<int64_t>(value.AsDouble()));
  return value;
}

std::vector<std::string> NamesOf(AlgorithmKind kind) {
  std::vector<std::string> names;
  for (const AlgorithmTable* table : AlgorithmTables(kind))
    if (std::find(names.begin(), names.end(), table->name) == names.end())
      names.push_back(table->name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status UnknownName(AlgorithmKind kind, const Json& json, const std::string& name) {
  const std::string key(KeyOf(kind));
  std::vector<std::string> known = NamesOf(kind);
  const std::string similar = DidYouMean(name, known);
  const std::string hint = "known: " + Join(known, ", ");
  return SpecError(json.is_object() ? key + "/" + name : key,
                   "unknown " + std::string(NounOf(kind)) + " '" + EscapeControl(name) + "'",
                   similar.empty() ? hint : similar + " " + hint);
}

absl::StatusOr<AlgorithmSpec> ParseOptions(const AlgorithmTable& table, const Json& json,
                                           const std::string& path) {
  AlgorithmSpec spec = DefaultsOf(table);
  if (json.is_null()) {  // It is named without options. Not every algorithm can do without.
    if (table.check != nullptr) RT_RETURN_IF_ERROR(table.check(spec.options, path));
    return spec;
  }
  if (!json.is_object()) return SpecError(path, "must be a map");
  std::vector<std::string> known;
  for (const AlgorithmOption& option : table.options) known.push_back(option.name);
  RT_RETURN_IF_ERROR(CheckKeys(json, known, path));
  for (const AlgorithmOption& option : table.options) {
    const Json* value = json.Find(option.name);
    if (value == nullptr || value->is_null()) continue;
    if (std::string problem = ProblemOf(option, *value); !problem.empty())
      return SpecError(path + "/" + option.name, problem);
    spec.options.Set(option.name, Normal(option, *value));
  }
  if (table.check != nullptr) RT_RETURN_IF_ERROR(table.check(spec.options, path));
  return spec;
}

}  // namespace

const AlgorithmTable* FindTable(AlgorithmKind kind, std::string_view name) {
  const AlgorithmTable* newest = nullptr;
  for (const AlgorithmTable* table : AlgorithmTables(kind)) {
    const auto& aliases = table->aliases;
    if (table->name != name && std::find(aliases.begin(), aliases.end(), name) == aliases.end())
      continue;
    if (newest == nullptr || table->version > newest->version) newest = table;
  }
  return newest;
}

std::string_view KeyOf(AlgorithmKind kind) {
  return kind == AlgorithmKind::kSearch ? "search" : "scheduler";
}

AlgorithmSpec DefaultsOf(const AlgorithmTable& table) {
  AlgorithmSpec spec{.name = table.name, .version = table.version};
  for (const AlgorithmOption& option : table.options)
    spec.options.Set(option.name, option.default_value);
  return spec;
}

AlgorithmSpec DefaultAlgorithm(AlgorithmKind kind) {
  return DefaultsOf(*AlgorithmTables(kind).front());
}

absl::StatusOr<AlgorithmSpec> ParseAlgorithm(AlgorithmKind kind, const Json* json) {
  if (json == nullptr || json->is_null()) return DefaultAlgorithm(kind);
  const std::string key(KeyOf(kind));
  const bool is_map = json->is_object() && json->object().size() == 1;
  if (!json->is_string() && !is_map)
    return SpecError(key, "must name one " + std::string(NounOf(kind)) + ", such as {" +
                              AlgorithmTables(kind).back()->name + ": {…}}");
  const std::string& name = is_map ? json->object().front().first : json->AsString();
  const AlgorithmTable* table = FindTable(kind, name);
  if (table == nullptr) return UnknownName(kind, *json, name);
  return ParseOptions(*table, is_map ? json->object().front().second : Json(), key + "/" + name);
}

Json ToNormal(const AlgorithmSpec& spec) {
  return Json::MakeObject(
      {{"name", spec.name}, {"version", spec.version}, {"options", spec.options}});
}

AlgorithmSpec ReadJournalledOptions(const AlgorithmTable& table, const Json& options,
                                    const std::string& path, std::vector<std::string>& warnings) {
  AlgorithmSpec spec = DefaultsOf(table);
  auto warn = [&](const std::string& name, const std::string& why) {
    warnings.push_back(EscapeControl(path + "/" + name) + ": " + why + "; it is ignored");
  };
  if (!options.is_object()) return spec;
  for (const auto& [name, value] : options.object()) {
    const auto option = std::find_if(table.options.begin(), table.options.end(),
                                     [&, &key = name](const auto& one) { return one.name == key; });
    if (option == table.options.end()) {
      warn(name, "is not known to this release");
      continue;
    }
    // Its range is not judged: a later release may be stricter than the one that wrote it.
    AlgorithmOption unbounded{.name = name, .type = option->type};
    if (std::string problem = ProblemOf(unbounded, value); !problem.empty()) warn(name, problem);
    else spec.options.Set(name, Normal(*option, value));
  }
  return spec;
}

AlgorithmSpec ReadJournalledAlgorithm(AlgorithmKind kind, const Json& normal,
                                      std::vector<std::string>& warnings, bool& is_known) {
  const std::string key(KeyOf(kind)), name = normal.GetString("name");
  const auto version = static_cast<uint32_t>(normal.GetInt("version"));
  const AlgorithmTable* table = FindTable(kind, name);
  is_known = table != nullptr;
  if (table == nullptr) {
    warnings.push_back(key + ": '" + EscapeControl(name) + "' is not known to this release");
    return DefaultAlgorithm(kind);
  }
  for (const AlgorithmTable* one : AlgorithmTables(kind))
    if (one->name == table->name && one->version == version) table = one;
  if (table->version != version)
    warnings.push_back(key + ": this release does not have version " + std::to_string(version) +
                       " of '" + EscapeControl(name) + "'; version " +
                       std::to_string(table->version) + " is used");
  const Json* options = normal.Find("options");
  return ReadJournalledOptions(*table, options == nullptr ? Json() : *options, key + "/" + name,
                               warnings);
}

std::vector<NamedMetric> MetricsOf(AlgorithmKind kind, const AlgorithmSpec& spec) {
  std::vector<NamedMetric> metrics;
  const AlgorithmTable* table = FindTable(kind, spec.name);
  if (table == nullptr) return metrics;
  for (const AlgorithmOption& option : table->options)
    if (option.type == Type::kMetricName)
      metrics.push_back({option.name, spec.options.GetString(option.name)});
  return metrics;
}

Json ToJson(const AlgorithmTable& table) {
  auto bound = [](double value) { return std::isinf(value) ? Json() : Json(value); };
  Json options = Json::MakeArray(), aliases = Json::MakeArray();
  for (const std::string& alias : table.aliases) aliases.Append(alias);
  for (const AlgorithmOption& option : table.options)
    options.Append(Json::MakeObject({{"name", option.name},
                                     {"type", NameOfType(option.type)},
                                     {"default", option.default_value},
                                     {"lower", bound(option.lower)},
                                     {"upper", bound(option.upper)},
                                     {"open", option.is_open},
                                     {"meaning", option.meaning}}));
  return Json::MakeObject({{"kind", std::string(KeyOf(table.kind))},
                           {"name", table.name},
                           {"version", table.version},
                           {"meaning", table.meaning},
                           {"aliases", std::move(aliases)},
                           {"needs_metric", table.needs_metric},
                           {"options", std::move(options)}});
}

}  // namespace rt
