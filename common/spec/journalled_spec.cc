// Formats 1 and 2: read field by field. What is absent keeps its default.
#include "common/spec/journalled_spec.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/pattern.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/spec/journalled_names.h"
#include "common/spec/journalled_reader.h"
#include "common/spec/journalled_space.h"
#include "common/spec/patterns.h"

namespace rt {
namespace {

using Reader = JournalledReader;

Resources ResourcesFrom(const Json& json, const std::string& path, Warnings& warnings) {
  Reader reader(json, path, warnings);
  Resources resources;
  reader.Read("cpu_units", resources.cpu);
  reader.Read("gpu_units", resources.gpu);
  reader.Read("memory_bytes", resources.memory);
  for (const auto& [name, units] : reader.Map("custom_units"))
    if (units.is_int() && units.AsInt() > 0) resources.custom[name] = units.AsInt();
    else reader.Warn("custom_units/" + name, "is not a whole number above 0");
  return resources;
}

void ReadPreflightFrom(Reader& reader, PreflightSpec& preflight, Warnings& warnings) {
  const Json* json = reader.Find("preflight");
  if (json == nullptr) return;
  preflight.wanted = true;
  Reader(*json, "preflight", warnings).Read("min_bus_gbps", preflight.min_bus_gbps);
}

ResourceRequest RequestFrom(const Json& json, const std::string& path, Warnings& warnings) {
  Reader reader(json, path, warnings);
  ResourceRequest request;
  std::vector<Resources> bundles;
  for (const Json& bundle : reader.List("bundles"))
    bundles.push_back(ResourcesFrom(bundle, reader.Below("bundles"), warnings));
  if (bundles.empty()) reader.Warn("bundles", "is empty");
  else request.bundles = std::move(bundles);
  reader.Read("ranks", request.ranks);
  const auto most = static_cast<uint32_t>(request.bundles.size());
  if (request.ranks < 1 || request.ranks > most) {
    reader.Warn("ranks", "is not a number from 1 to that of the bundles");
    request.ranks = most;
  }
  reader.Read("ranks_per_node", request.ranks_per_node);
  if (request.ranks_per_node != 0 && most % request.ranks_per_node != 0) {
    reader.Warn("ranks_per_node", "does not divide the number of bundles");
    request.ranks_per_node = 0;
  }
  reader.Read("ranks_min", request.ranks_min);
  reader.Read("ranks_max", request.ranks_max);
  const bool are_bounds = request.ranks_min <= request.ranks && request.ranks <= request.ranks_max;
  if (request.is_elastic() && (request.ranks_min < 1 || !are_bounds || !request.is_uniform())) {
    reader.Warn("ranks_max", "does not fit the number of ranks");
    request.ranks_min = request.ranks_max = 0;
  }
  reader.ReadName("strategy", kStrategies, request.strategy,
                  [](Strategy strategy) { return NameOf(strategy); });
  reader.Read("spread_gpus", request.spread_gpus);
  for (const Json& type : reader.List("gpu_types"))
    if (type.is_string()) request.gpu_types.push_back(type.AsString());
  return request;
}

void RetryFrom(Reader& reader, Warnings& warnings, std::vector<RetryRule>& rules) {
  static constexpr RetryAction kActions[] = {RetryAction::kRetry, RetryAction::kFail,
                                             RetryAction::kExcludeNode};
  for (const Json& item : reader.List("retry")) {
    Reader one(item, "retry/" + std::to_string(rules.size()), warnings);
    RetryRule& rule = rules.emplace_back();
    for (const Json& code : one.List("exit_codes"))
      if (code.is_int()) rule.exit_codes.push_back(static_cast<int>(code.AsInt()));
    one.Read("log", rule.log);
    one.Read("oom", rule.out_of_gpu_memory);
    one.ReadName("then", kActions, rule.then, RetryActionName);
    one.Read("off", rule.off);
    absl::Status pattern;
    if (!rule.log.empty()) pattern = Pattern::Compile(rule.log).status();
    if (pattern.ok() && !rule.off) continue;
    if (!pattern.ok()) one.Warn("log", MessageOf(pattern));
    rule = RetryRule{.off = true};  // Its place stays: rules are known by their numbers.
  }
}

void PoliciesFrom(Reader& reader, Warnings& warnings, ExperimentSpec& spec) {
  RetryFrom(reader, warnings, spec.retry);
  if (const Json* json = reader.Find("breaker")) {
    Reader breaker(*json, "breaker", warnings);
    breaker.Read("trials", spec.breaker.trials);
    breaker.Read("within_ms", spec.breaker.within);
  }
  if (const Json* json = reader.Find("watchdog")) {
    Reader watchdog(*json, "watchdog", warnings);
    watchdog.Read("factor", spec.watchdog.factor);
    watchdog.Read("min_ms", spec.watchdog.min);
    watchdog.Read("restarts", spec.watchdog.restarts);
    watchdog.Read("dump", spec.watchdog.dump);
  }
  if (const Json* json = reader.Find("checkpoints")) {
    static constexpr DurableAfter kPlaces[] = {DurableAfter::kStore, DurableAfter::kPeer,
                                               DurableAfter::kLocal};
    Reader policy(*json, "checkpoints", warnings);
    int keep = 0;
    policy.Read("num_to_keep", keep);
    if (keep > 0) spec.checkpoints.num_to_keep = keep;
    policy.Read("score_attribute", spec.checkpoints.score_attribute);
    policy.ReadName("score_order", kModes, spec.checkpoints.score_order,
                    [](Mode mode) { return NameOf(mode); });
    policy.ReadName("durable_after", kPlaces, spec.checkpoints.durable_after, DurableAfterName);
  }
}

// What format 1 wrote of the algorithms: the options of the only search beside the other fields,
// and those of a scheduler under its name.
void AlgorithmsFromFormat1(Reader& reader, Warnings& warnings, ExperimentSpec& spec) {
  const AlgorithmTable& search = *AlgorithmTables(AlgorithmKind::kSearch).front();
  Json options = Json::MakeObject();
  for (const AlgorithmOption& option : search.options)
    if (const Json* value = reader.Find(option.name)) options.Set(option.name, *value);
  spec.search = ReadJournalledOptions(search, options, "search", warnings);
  spec.scheduler = DefaultAlgorithm(AlgorithmKind::kScheduler);
  for (const AlgorithmTable* table : AlgorithmTables(AlgorithmKind::kScheduler))
    if (const Json* json = reader.Find(table->name); json != nullptr && table->version == 1)
      spec.scheduler = ReadJournalledOptions(*table, *json, "scheduler", warnings);
}

// False: the search is not known, so that nothing can be proposed.
bool AlgorithmsFrom(Reader& reader, Warnings& warnings, ExperimentSpec& spec) {
  bool knows_search = true, knows_scheduler = true;
  const Json* search = reader.Find("search");
  const Json* scheduler = reader.Find("scheduler");
  spec.search = ReadJournalledAlgorithm(AlgorithmKind::kSearch, search ? *search : Json(),
                                        warnings, knows_search);
  spec.scheduler = ReadJournalledAlgorithm(AlgorithmKind::kScheduler,
                                           scheduler ? *scheduler : Json(), warnings,
                                           knows_scheduler);
  return knows_search;
}

void RulesFrom(Reader& reader, const std::string& key, Warnings& warnings,
               std::vector<StopRule>& rules) {
  for (const Json& item : reader.List(key)) {
    Reader one(item, key, warnings);
    StopRule& rule = rules.emplace_back();
    one.Read("key", rule.key);
    one.Read("at_most", rule.at_most);
    one.Read("threshold", rule.threshold);
  }
}

void SchedulingFrom(Reader& reader, Warnings& warnings, ExperimentSpec& spec) {
  RulesFrom(reader, "stop", warnings, spec.stop);
  RulesFrom(reader, "constraints", warnings, spec.constraints);
  for (const Json& item : reader.List("objectives")) {
    Reader one(item, "objectives", warnings);
    Objective& objective = spec.objectives.emplace_back();
    one.Read("metric", objective.metric);
    one.ReadName("mode", kModes, objective.mode, [](Mode mode) { return NameOf(mode); });
  }
  std::string when;
  reader.Read("stop_when", when);
  if (!when.empty()) {
    absl::StatusOr<StopExpression> expression = ParseStopExpression(when);
    if (expression.ok()) spec.stop_when = *std::move(expression);
    else warnings.push_back(MessageOf(expression.status()) + "; it is ignored");
  }
  ReadPreflightFrom(reader, spec.preflight, warnings);
  if (const Json* json = reader.Find("plateau")) spec.plateau = PlateauFromNormal(*json);
  if (const Json* json = reader.Find("experiment_plateau"))
    spec.experiment_plateau = ExperimentPlateauFromNormal(*json);
  if (const Json* json = reader.Find("reallocation"))
    spec.reallocation = ReallocationFromNormal(*json);
  if (const Json* json = reader.Find("driver")) {
    Reader driver(*json, "driver", warnings);
    driver.Read("suggests", spec.driver.searches);
    driver.Read("judges", spec.driver.schedules);
    driver.Read("chooses", spec.driver.selects_next);
    driver.Read("watches", spec.driver.observes);
    driver.Read("explores", spec.driver.explores);
    driver.Read("allocates", spec.driver.allocates);
    driver.Read("search", spec.driver.search);
    driver.Read("scheduler", spec.driver.scheduler);
  }
}

void ScalarsFrom(Reader& reader, ExperimentSpec& spec) {
  reader.Read("name", spec.name);
  reader.Read("trainable", spec.trainable);
  reader.Read("num_samples", spec.num_samples);
  reader.Read("metric", spec.metric);
  reader.ReadName("mode", kModes, spec.mode, [](Mode mode) { return NameOf(mode); });
  reader.Read("strict_metric", spec.strict_metric);
  reader.Read("compares_configurations", spec.compares_configurations);
  reader.Read("max_concurrent", spec.max_concurrent);
  reader.Read("limit_cpu", spec.limit_cpu);
  reader.Read("suspend", spec.suspend);
  reader.Read("short_trials", spec.short_trials);
  reader.Read("priority", spec.priority);
  reader.Read("max_failures", spec.max_failures);
  reader.Read("fail_fast", spec.fail_fast);
  reader.Read("time_budget_ms", spec.time_budget);
  uint64_t seed = 0;
  if (reader.Find("seed") != nullptr) {
    reader.Read("seed", seed);
    spec.seed = seed;
  }
  reader.Read("results_dir", spec.results_dir);
  reader.Read("report_regex", spec.report_regex);
  reader.Read("bundle", spec.bundle);
  reader.Read("cwd", spec.cwd);
  reader.Read("env", spec.env);
}

std::vector<std::string> ArgumentsFrom(Reader& reader, const std::string& key) {
  std::vector<std::string> argv;
  for (const Json& item : reader.List(key)) argv.push_back(item.is_string() ? item.AsString()
                                                                            : item.Dump());
  if (argv.empty()) {
    reader.Warn(key, "is empty");
    argv = {"false"};
  }
  return argv;
}

SpecReading<ExperimentSpec> ExperimentFrom(const Json& json, uint32_t format) {
  SpecReading<ExperimentSpec> reading;
  ExperimentSpec& spec = reading.spec;
  Reader reader(json, "", reading.warnings);
  ScalarsFrom(reader, spec);
  spec.command = ArgumentsFrom(reader, "command");
  const Json* space = reader.Find("space");
  reading.closed = space != nullptr && !SpaceFrom(*space, reading.warnings, spec.space);
  if (format == 1) AlgorithmsFromFormat1(reader, reading.warnings, spec);
  else if (!AlgorithmsFrom(reader, reading.warnings, spec)) reading.closed = true;
  if (const Json* resources = reader.Find("resources"))
    spec.resources = RequestFrom(*resources, "resources", reading.warnings);
  SchedulingFrom(reader, reading.warnings, spec);
  PoliciesFrom(reader, reading.warnings, spec);
  for (const Json& item : reader.List("inputs"))
    spec.inputs.push_back({item.GetString("manifest"), item.GetString("env")});
  if (absl::Status pattern = CheckReportRegex(spec); !pattern.ok()) {
    reader.Warn("report_regex", MessageOf(pattern));
    spec.report_regex.clear();
  }
  CountTrialsOfPoints(spec);
  return reading;
}

SpecReading<JobSpec> JobFrom(const Json& json, const std::string& path = "") {
  SpecReading<JobSpec> reading;
  Reader reader(json, path, reading.warnings);
  reader.Read("name", reading.spec.name);
  reading.spec.argv = ArgumentsFrom(reader, "argv");
  reader.Read("bundle", reading.spec.bundle);
  reader.Read("cwd", reading.spec.cwd);
  reader.Read("env", reading.spec.env);
  if (const Json* resources = reader.Find("resources"))
    reading.spec.resources = RequestFrom(*resources, "resources", reading.warnings);
  ReadPreflightFrom(reader, reading.spec.preflight, reading.warnings);
  return reading;
}

SpecReading<ExecutorSpec> ExecutorFrom(const Json& json) {
  SpecReading<ExecutorSpec> reading;
  ExecutorSpec& spec = reading.spec;
  Reader reader(json, "", reading.warnings);
  if (const Json* program = reader.Find("program")) {
    SpecReading<JobSpec> read = JobFrom(*program, "program");
    spec.program = std::move(read.spec);
    std::move(read.warnings.begin(), read.warnings.end(), std::back_inserter(reading.warnings));
  }
  for (const Json& item : reader.List("inputs"))
    spec.inputs.push_back({item.GetString("manifest"), item.GetString("env")});
  reader.Read("params", spec.params);
  reader.Read("detached", spec.detached);
  reader.Read("actor_name", spec.actor_name);
  reader.Read("actor_class", spec.actor_class);
  reader.Read("max_restarts", spec.max_restarts);
  return reading;
}

Json ParsedOrNull(std::string_view text) {
  absl::StatusOr<Json> json = Json::Parse(text);
  return json.ok() ? *std::move(json) : Json();
}

template <class Reading>
Reading NotingFormat(const JournalledSpec& journalled, Reading reading) {
  if (journalled.format > kSpecFormat)
    reading.warnings.push_back("a later release wrote this in format " +
                               std::to_string(journalled.format) +
                               "; it is read as format " + std::to_string(kSpecFormat));
  return reading;
}

}  // namespace

SpecReading<ExperimentSpec> ReadJournalledExperiment(const JournalledSpec& journalled) {
  if (journalled.format == 0) return ReadExperimentText(ParsedOrNull(journalled.text));
  return NotingFormat(journalled, ExperimentFrom(ParsedOrNull(journalled.normal),
                                                 journalled.format));
}

SpecReading<JobSpec> ReadJournalledJob(const JournalledSpec& journalled) {
  if (journalled.format == 0) return ReadJobText(ParsedOrNull(journalled.text));
  return NotingFormat(journalled, JobFrom(ParsedOrNull(journalled.normal)));
}

SpecReading<ExecutorSpec> ReadJournalledExecutor(const JournalledSpec& journalled) {
  return NotingFormat(journalled, ExecutorFrom(ParsedOrNull(journalled.normal)));
}

SpecReading<ResourceRequest> ReadJournalledResources(const JournalledSpec& journalled) {
  if (journalled.format == 0)
    return ReadResourcesText(ParsedOrNull(journalled.text), "resources");
  SpecReading<ResourceRequest> reading;
  reading.spec = RequestFrom(ParsedOrNull(journalled.normal), "resources", reading.warnings);
  return NotingFormat(journalled, std::move(reading));
}

}  // namespace rt
