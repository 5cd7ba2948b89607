#include "common/spec/experiment_spec.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/limits.h"
#include "common/base/quantity.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/algorithm_checks.h"
#include "common/spec/experiment_checks.h"
#include "common/spec/objectives.h"
#include "common/spec/patterns.h"
#include "common/spec/space_check.h"

namespace rt {
namespace {

const std::vector<std::string>& KnownKeys() {
  static const std::vector<std::string> keys = {
      "experiment", "command",        "script",       "space",        "num_samples",
      "metric",     "mode",           "search",       "scheduler",    "stop",
      "resources",  "max_concurrent", "max_failures", "time_budget",  "seed",
      "env",        "results_dir",    "report_regex", "checkpoints",  "trainable",
      "bundle",     "inputs",         "cwd",          "fail_fast",    "driver",
      "retry",      "breaker",        "watchdog",     "priority",     "short_trials",
      "limit_cpu",  "strict_metric",  "constraints",  "reallocation", "preflight",
      "suspend"};
  return keys;
}

absl::Status ReadText(const Json& json, const char* key, std::string& out, size_t bytes_max) {
  const Json* value = json.Find(key);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_string()) return SpecError(key, "must be text");
  if (value->AsString().size() > bytes_max)
    return SpecError(key, "is longer than " + std::to_string(bytes_max) + " bytes");
  if (!IsValidUtf8(value->AsString()) || value->AsString().find('\0') != std::string::npos)
    return SpecError(key, "must be valid UTF-8 without NUL");
  out = value->AsString();
  return absl::OkStatus();
}

absl::Status ReadInt(const Json& json, const char* key, int64_t low, int64_t high, int64_t& out) {
  const Json* value = json.Find(key);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_int() || value->AsInt() < low || value->AsInt() > high)
    return SpecError(key, "must be a whole number between " + std::to_string(low) + " and " +
                              std::to_string(high));
  out = value->AsInt();
  return absl::OkStatus();
}

absl::Status ReadBool(const Json& json, const std::string& path, const char* key, bool& out) {
  const Json* value = json.Find(key);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_bool()) return SpecError(path + key, "must be true or false");
  out = value->AsBool();
  return absl::OkStatus();
}

absl::Status ReadMode(const Json& json, const std::string& path, const char* key, Mode& out) {
  const Json* value = json.Find(key);
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_string() || (value->AsString() != "max" && value->AsString() != "min"))
    return SpecError(path + key, "must be 'max' or 'min'");
  out = value->AsString() == "max" ? Mode::kMax : Mode::kMin;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadCommand(const Json& json) {
  const Json* command = json.Find("command");
  const Json* script = json.Find("script");
  if (command != nullptr && script != nullptr)
    return SpecError("script", "cannot be given together with 'command'", "give one of the two");
  if (script != nullptr) {
    if (!script->is_string() || script->AsString().empty())
      return SpecError("script", "must be the path of a program");
    if (script->AsString().ends_with(".py"))
      return std::vector<std::string>{"python3", script->AsString()};
    return std::vector<std::string>{script->AsString()};
  }
  if (command == nullptr)
    return SpecError("command", "is missing", "add command: [program, argument] or script: path");
  if (!command->is_array() || command->array().empty())
    return SpecError("command", "must be a list that is not empty: [program, argument, …]",
                     "a shell string is never split or run; write each argument as an item");
  std::vector<std::string> argv;
  size_t total = 0;
  for (size_t i = 0; i < command->array().size(); ++i) {
    const Json& item = command->array()[i];
    std::string path = "command/" + std::to_string(i);
    if (item.is_object() || item.is_array() || item.is_null())
      return SpecError(path, "must be text or a number");
    argv.push_back(item.is_string() ? item.AsString() : item.Dump());
    if (argv.back().find('\0') != std::string::npos) return SpecError(path, "contains NUL");
    total += argv.back().size() + 1;
  }
  if (total > limits::kArgvBytesMax) return SpecError("command", "is longer than 1 MiB");
  if (argv.front().empty()) return SpecError("command/0", "the program's name is empty");
  return argv;
}

absl::Status ReadAlgorithms(const Json& json, ExperimentSpec& spec) {
  RT_ASSIGN_OR_RETURN(spec.search, ParseAlgorithm(AlgorithmKind::kSearch, json.Find("search")));
  RT_ASSIGN_OR_RETURN(spec.scheduler,
                      ParseAlgorithm(AlgorithmKind::kScheduler, json.Find("scheduler")));
  for (const auto& [kind, one] : {std::pair(AlgorithmKind::kSearch, &spec.search),
                                  std::pair(AlgorithmKind::kScheduler, &spec.scheduler)})
    if (FindTable(kind, one->name)->needs_metric && spec.metric.empty())
      return SpecError(KeyOf(kind), one->name + " compares trials by a metric",
                       "add metric: NAME and mode: max or min");
  const bool changes_params =
      FindTable(AlgorithmKind::kScheduler, spec.scheduler.name)->changes_params;
  if (changes_params && spec.search.name != "basic")
    return SpecError("scheduler",
                     spec.scheduler.name +
                         " changes the configurations of its trials itself, so that "
                         "search '" +
                         spec.search.name + "' would learn nothing",
                     "leave search out");
  RT_RETURN_IF_ERROR(CheckObjectives(spec));
  const auto check_space = FindTable(AlgorithmKind::kSearch, spec.search.name)->check_space;
  return check_space == nullptr ? absl::OkStatus() : check_space(spec.space);
}

// A threshold of a metric that is called as a rule is a number, or one comparison with a number.
bool IsPlateauRule(const Json& value) {
  return value.is_object() && value.Find("<=") == nullptr && value.Find(">=") == nullptr;
}

absl::Status ReadStop(const Json& json, ExperimentSpec& spec) {
  const Json* stop = json.Find("stop");
  if (stop == nullptr || stop->is_null()) return absl::OkStatus();
  if (stop->is_string()) {
    RT_ASSIGN_OR_RETURN(spec.stop_when, ParseStopExpression(stop->AsString()));
    return absl::OkStatus();
  }
  if (!stop->is_object())
    return SpecError("stop", "must be a map of metric: threshold, or an expression",
                     "for example: loss < 0.1 or training_iteration >= 100");
  for (const auto& [key, value] : stop->object()) {
    std::string path = "stop/" + key;
    if (key == "plateau" && IsPlateauRule(value)) {
      RT_ASSIGN_OR_RETURN(spec.plateau,
                          ParsePlateau(value, path, spec.metric, spec.mode == Mode::kMin));
      continue;
    }
    if (key == "experiment_plateau" && IsPlateauRule(value)) {
      RT_ASSIGN_OR_RETURN(spec.experiment_plateau, ParseExperimentPlateau(value, path, spec.metric,
                                                                          spec.mode == Mode::kMin));
      continue;
    }
    StopRule rule{.key = key, .at_most = key == spec.metric && spec.mode == Mode::kMin};
    for (const Objective& each : spec.objectives)
      if (each.metric == key) rule.at_most = each.mode == Mode::kMin;
    const Json* threshold = &value;
    if (value.is_object() && value.object().size() == 1) {
      const std::string& comparison = value.object().front().first;
      if (comparison != "<=" && comparison != ">=")
        return SpecError(path, "the comparison must be '<=' or '>='");
      rule.at_most = comparison == "<=";
      threshold = &value.object().front().second;
    }
    if (!threshold->is_number() || std::isnan(threshold->AsDouble()))
      return SpecError(path, "must be a number");
    rule.threshold = threshold->AsDouble();
    spec.stop.push_back(std::move(rule));
  }
  return absl::OkStatus();
}

// Names of variables: those that begin with RT_ are set by rt, but for `allowed`.
absl::Status CheckEnvName(const std::string& name, std::initializer_list<std::string_view> allowed,
                          const std::string& path) {
  const bool is_allowed = std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  const bool is_ours = name.starts_with("RT_") && !is_allowed;
  const bool is_plain = !name.empty() && name.find_first_of(std::string_view("=\0", 2)) ==
                                             std::string::npos;
  if (is_plain && !is_ours) return absl::OkStatus();
  return SpecError(path, "is not a name that may be set", "names beginning with RT_ are rt's");
}

absl::Status ReadEnv(const Json& json, std::map<std::string, std::string>& env) {
  const Json* value = json.Find("env");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_object()) return SpecError("env", "must be a map of names to text");
  for (const auto& [name, text] : value->object()) {
    std::string path = "env/" + name;
    RT_RETURN_IF_ERROR(CheckEnvName(
        name, {"RT_WARM_START", "RT_GPU_METRICS", "RT_TRAIN_BARRIER_TIMEOUT_S"}, path));
    if (!text.is_string() && !text.is_number()) return SpecError(path, "must be text");
    env[name] = text.is_string() ? text.AsString() : text.Dump();
    if (env[name].find('\0') != std::string::npos) return SpecError(path, "contains NUL");
  }
  return absl::OkStatus();
}

absl::Status ReadDriver(const Json& json, DriverSpec& driver) {
  const Json* value = json.Find("driver");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_object()) return SpecError("driver", "must be a map");
  RT_RETURN_IF_ERROR(CheckKeys(
      *value,
      {"suggests", "judges", "chooses", "watches", "explores", "allocates", "search", "scheduler"},
      "driver"));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "suggests", driver.searches));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "judges", driver.schedules));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "chooses", driver.selects_next));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "watches", driver.observes));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "explores", driver.explores));
  RT_RETURN_IF_ERROR(ReadBool(*value, "driver/", "allocates", driver.allocates));
  RT_RETURN_IF_ERROR(ReadText(*value, "search", driver.search, limits::kNameBytesMax));
  return ReadText(*value, "scheduler", driver.scheduler, limits::kNameBytesMax);
}

absl::Status ReadInputs(const Json& json, std::vector<InputFile>& inputs) {
  const Json* value = json.Find("inputs");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_array()) return SpecError("inputs", "must be a list");
  for (const Json& item : value->array()) {
    InputFile input{item.GetString("manifest"), item.GetString("env")};
    if (input.manifest.empty() || input.env.empty())
      return SpecError("inputs", "each needs 'manifest' and 'env'");
    // RT_TRAINABLE: what a search in Python pickles for its trials.
    const std::string path = "inputs/" + std::to_string(inputs.size()) + "/env";
    RT_RETURN_IF_ERROR(CheckEnvName(input.env, {"RT_TRAINABLE"}, path));
    inputs.push_back(std::move(input));
  }
  return absl::OkStatus();
}

absl::Status ReadBudget(const Json& json, ExperimentSpec& spec) {
  const Json* budget = json.Find("time_budget");
  if (budget == nullptr || budget->is_null()) return absl::OkStatus();
  const std::optional<double> seconds = SecondsOf(*budget);
  if (!seconds || !(*seconds > 0) || *seconds * 1000 > limits::kTimeBudgetMax)
    return SpecError("time_budget", "must be a time such as 90, 15m or 1h30m");
  spec.time_budget = static_cast<Millis>(*seconds * 1000);
  return absl::OkStatus();
}

absl::Status ReadDurableAfter(const Json& json, DurableAfter& where) {
  const Json* value = json.Find("durable_after");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  for (DurableAfter one : {DurableAfter::kStore, DurableAfter::kPeer, DurableAfter::kLocal}) {
    where = one;
    if (value->is_string() && value->AsString() == DurableAfterName(one)) return absl::OkStatus();
  }
  return SpecError("checkpoints/durable_after", "must be 'store', 'peer' or 'local'");
}

absl::Status ReadCheckpoints(const Json& json, CheckpointPolicy& policy) {
  const Json* value = json.Find("checkpoints");
  if (value == nullptr || value->is_null()) return absl::OkStatus();
  if (!value->is_object()) return SpecError("checkpoints", "must be a map");
  RT_RETURN_IF_ERROR(
      CheckKeys(*value, {"num_to_keep", "score_attribute", "score_order",
                                     "durable_after"}, "checkpoints"));
  if (const Json* keep = value->Find("num_to_keep"); keep != nullptr && !keep->is_null()) {
    if (!keep->is_int() || keep->AsInt() < 1 || keep->AsInt() > 1'000'000)
      return SpecError("checkpoints/num_to_keep", "must be a whole number above 0");
    policy.num_to_keep = static_cast<int>(keep->AsInt());
  }
  policy.score_attribute = value->GetString("score_attribute");
  RT_RETURN_IF_ERROR(ReadDurableAfter(*value, policy.durable_after));
  return ReadMode(*value, "checkpoints/", "score_order", policy.score_order);
}

// CheckSize says how long the names may be.
absl::Status ReadScalars(const Json& json, ExperimentSpec& spec) {
  RT_RETURN_IF_ERROR(ReadText(json, "experiment", spec.name, limits::kSpecBytesMax));
  if (spec.name.empty()) return SpecError("experiment", "the experiment's name is missing");
  if (spec.name.find('/') != std::string::npos || spec.name.starts_with('.'))
    return SpecError("experiment", "must not contain '/' or begin with '.'");
  RT_RETURN_IF_ERROR(ReadText(json, "trainable", spec.trainable, limits::kSpecBytesMax));
  RT_RETURN_IF_ERROR(ReadText(json, "results_dir", spec.results_dir, limits::kPathBytesMax));
  RT_RETURN_IF_ERROR(ReadText(json, "report_regex", spec.report_regex, limits::kReasonBytesMax));
  RT_RETURN_IF_ERROR(ReadText(json, "bundle", spec.bundle, limits::kNameBytesMax));
  RT_RETURN_IF_ERROR(ReadText(json, "cwd", spec.cwd, limits::kPathBytesMax));
  RT_RETURN_IF_ERROR(ReadObjectives(json, spec));
  RT_RETURN_IF_ERROR(ReadInt(json, "num_samples", -1, limits::kSamplesMax, spec.num_samples));
  if (spec.num_samples == 0)
    return SpecError("num_samples", "must not be 0", "write -1 for an unlimited number");
  int64_t concurrent = 0, failures = 0, priority = 0;
  RT_RETURN_IF_ERROR(ReadInt(json, "max_concurrent", 0, 1'000'000, concurrent));
  RT_RETURN_IF_ERROR(ReadInt(json, "max_failures", -1, 1'000'000, failures));
  RT_RETURN_IF_ERROR(
      ReadInt(json, "priority", -limits::kPriorityMost, limits::kPriorityMost, priority));
  spec.max_concurrent = static_cast<int>(concurrent);
  spec.priority = static_cast<int>(priority);
  spec.max_failures = static_cast<int>(failures);
  if (const Json* seed = json.Find("seed"); seed != nullptr && !seed->is_null()) {
    if (!seed->is_int() || seed->AsInt() < 0)
      return SpecError("seed", "must be a whole number of 0 or more");
    spec.seed = static_cast<uint64_t>(seed->AsInt());
  }
  spec.strict_metric = true;
  RT_RETURN_IF_ERROR(ReadBool(json, "", "strict_metric", spec.strict_metric));
  RT_RETURN_IF_ERROR(ReadBool(json, "", "short_trials", spec.short_trials));
  RT_RETURN_IF_ERROR(ReadBool(json, "", "limit_cpu", spec.limit_cpu));
  RT_RETURN_IF_ERROR(ReadBool(json, "", "suspend", spec.suspend));
  return ReadBool(json, "", "fail_fast", spec.fail_fast);
}

absl::Status CheckSize(const ExperimentSpec& spec) {
  for (const auto& [path, name] : {std::pair("experiment", &spec.name),
                                   std::pair("trainable", &spec.trainable)})
    if (name->size() > limits::kFolderNameBytesMax)
      return SpecError(path, "is longer than " + std::to_string(limits::kFolderNameBytesMax) +
                                 " bytes: folders of its trials begin with it");
  if (std::any_of(spec.name.begin(), spec.name.end(),
                  [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }))
    return SpecError("experiment", "must not contain line breaks or other control characters");
  if (spec.space.variables.size() > limits::kVariablesMax)
    return SpecError("space",
                     "has " + std::to_string(spec.space.variables.size()) + " variables, at most " +
                         std::to_string(limits::kVariablesMax) + " are allowed",
                     "give what does not vary as plain values");
  return absl::OkStatus();
}

}  // namespace

std::optional<uint64_t> ExperimentSpec::TrialsTotal() const {
  if (num_samples < 0) return std::nullopt;
  const auto samples = static_cast<uint64_t>(num_samples);
  const size_t given = std::min<size_t>(trials_through.size(), samples);
  const uint64_t total = given == 0 ? 0 : trials_through[given - 1];
  return total + (samples - given) * space.grid_points;
}

const Json::Array& PointsOf(const ExperimentSpec& spec) {
  static const Json::Array none;
  const Json* points = spec.search.options.Find("points");
  return points != nullptr && points->is_array() ? points->array() : none;
}

void CountTrialsOfPoints(ExperimentSpec& spec) {
  std::map<std::string, uint64_t> grids;  // By path.
  for (const Variable& variable : spec.space.variables)
    if (variable.domain.kind == Domain::Kind::kGrid)
      grids.try_emplace(PathText(variable.path), 1).first->second *= variable.domain.values.size();
  uint64_t total = 0;
  spec.trials_through.clear();
  for (const Json& point : PointsOf(spec)) {
    uint64_t trials = spec.space.grid_points;
    for (const std::string& path : FlatPaths(point))
      if (const auto grid = grids.find(path); grid != grids.end()) trials /= grid->second;
    spec.trials_through.push_back(total += trials);
  }
}

absl::StatusOr<ExperimentSpec> ParseExperimentSpec(const Json& json, SpecSource source) {
  if (!json.is_object()) return SpecError("", "an experiment must be a map");
  RT_RETURN_IF_ERROR(CheckKeys(json, KnownKeys(), ""));
  ExperimentSpec spec;
  RT_RETURN_IF_ERROR(ReadScalars(json, spec));
  RT_ASSIGN_OR_RETURN(spec.command, ReadCommand(json));
  if (const Json* space = json.Find("space"); space != nullptr && !space->is_null()) {
    RT_ASSIGN_OR_RETURN(spec.space, ParseSpace(*space, "space"));
  }
  RT_RETURN_IF_ERROR(ReadAlgorithms(json, spec));
  RT_RETURN_IF_ERROR(ReadStop(json, spec));
  spec.resources.bundles.front().cpu = kUnit;
  if (const Json* resources = json.Find("resources"); resources && !resources->is_null()) {
    RT_ASSIGN_OR_RETURN(spec.resources, ParseResourceRequest(*resources, "resources"));
  }
  RT_RETURN_IF_ERROR(ReadReallocation(json, spec.resources, spec.reallocation));
  RT_RETURN_IF_ERROR(ReadBudget(json, spec));
  RT_RETURN_IF_ERROR(ReadEnv(json, spec.env));
  RT_RETURN_IF_ERROR(ReadInputs(json, spec.inputs));
  RT_RETURN_IF_ERROR(ReadCheckpoints(json, spec.checkpoints));
  RT_RETURN_IF_ERROR(ReadRetry(json, spec.retry));
  RT_RETURN_IF_ERROR(ReadBreaker(json, spec.breaker));
  RT_RETURN_IF_ERROR(ReadWatchdog(json, spec.watchdog));
  RT_RETURN_IF_ERROR(ReadPreflight(json, spec.resources, spec.preflight));
  RT_RETURN_IF_ERROR(ReadDriver(json, spec.driver));
  Json known = spec.space.skeleton;
  RT_ASSIGN_OR_RETURN(auto unused, SubstituteCommand(spec.command, known, spec.space));
  (void)unused;
  RT_RETURN_IF_ERROR(CheckPatterns(spec));
  spec.compares_configurations = source == SpecSource::kUser &&
                                 FindTable(AlgorithmKind::kSearch, spec.search.name)->needs_metric;
  if (source == SpecSource::kUser) {
    RT_RETURN_IF_ERROR(CheckSize(spec));
    RT_RETURN_IF_ERROR(CheckPlateaus(json));
    RT_RETURN_IF_ERROR(CheckMutated(spec));
    RT_RETURN_IF_ERROR(CheckTogether(spec));
    RT_RETURN_IF_ERROR(CheckDraws(spec.space));
    RT_RETURN_IF_ERROR(CheckRungs(json, spec));
    RT_RETURN_IF_ERROR(CheckPointsOf(json, spec));
    RT_RETURN_IF_ERROR(CheckEvaluated(json, spec));
  }
  CountTrialsOfPoints(spec);
  return spec;
}

absl::Status SpecError(std::string_view path, std::string_view message, std::string_view hint) {
  std::string text = path.empty() ? std::string(message)
                                  : EscapeControl(path) + ": " + std::string(message);
  return WithPosition(Invalid(text, hint), {.file = std::string(path), .line = 0, .column = 0});
}

std::string SpecPathOf(const absl::Status& status) { return PositionOf(status).file; }

absl::Status CheckKeys(const Json& json, const std::vector<std::string>& known,
                       std::string_view path) {
  if (!json.is_object()) return SpecError(path, "must be a map");
  for (const auto& [key, value] : json.object()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string where = path.empty() ? key : std::string(path) + "/" + key;
    const std::string hint = DidYouMean(key, known);
    return SpecError(where, "unknown key '" + Excerpt(key) + "'",
                     hint.empty() ? "known keys: " + Join(known, ", ") : hint);
  }
  return absl::OkStatus();
}

std::optional<double> RowValue(const RowView& row, std::string_view key) {
  if (const Json* value = FindFlat(row.metrics, key)) {
    if (value->HasDouble()) return value->AsDouble();
    if (value->is_bool()) return value->AsBool() ? 1.0 : 0.0;
    return std::nullopt;
  }
  if (key == "training_iteration") return row.iteration;
  if (key == "time_total_s") return row.time_total_s;
  return std::nullopt;
}

const StopRule* MetRule(const std::vector<StopRule>& rules, const RowView& row) {
  for (const StopRule& rule : rules) {
    std::optional<double> value = RowValue(row, rule.key);
    if (!value.has_value()) continue;
    if (rule.at_most ? *value <= rule.threshold : *value >= rule.threshold) return &rule;
  }
  return nullptr;
}

}  // namespace rt
