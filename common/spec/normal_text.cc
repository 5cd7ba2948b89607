// Format 2: written field by field, defaults included, so that a later release with other defaults
// reads what was meant.
#include <cmath>

#include "common/spec/journalled_names.h"
#include "common/spec/journalled_spec.h"

namespace rt {
namespace {

Json TextsOf(const std::vector<std::string>& texts) {
  Json list = Json::MakeArray();
  for (const std::string& text : texts) list.Append(text);
  return list;
}

Json MapOf(const std::map<std::string, std::string>& texts) {
  Json map = Json::MakeObject();
  for (const auto& [name, text] : texts) map.object().emplace_back(name, text);
  return map;
}

Json ToNormal(const Resources& resources) {
  Json custom = Json::MakeObject();
  for (const auto& [name, units] : resources.custom) custom.object().emplace_back(name, units);
  return Json::MakeObject({{"cpu_units", resources.cpu},
                           {"gpu_units", resources.gpu},
                           {"memory_bytes", resources.memory},
                           {"custom_units", std::move(custom)}});
}

Json ToNormal(const ResourceRequest& request) {
  Json bundles = Json::MakeArray();
  for (const Resources& bundle : request.bundles) bundles.Append(ToNormal(bundle));
  Json json = Json::MakeObject({{"bundles", std::move(bundles)},
                                {"ranks", request.ranks},
                                {"strategy", NameOf(request.strategy)},
                                {"spread_gpus", request.spread_gpus}});
  // Left out where it says nothing: releases before it do not know it.
  if (request.ranks_per_node != 0) json.Set("ranks_per_node", request.ranks_per_node);
  if (!request.gpu_types.empty()) json.Set("gpu_types", TextsOf(request.gpu_types));
  if (request.is_elastic()) {
    json.Set("ranks_min", request.ranks_min);
    json.Set("ranks_max", request.ranks_max);
  }
  return json;
}

Json ToNormal(const std::vector<PathStep>& path) {
  Json list = Json::MakeArray();
  for (const PathStep& step : path) {
    if (const auto* key = std::get_if<std::string>(&step)) list.Append(*key);
    else list.Append(std::get<size_t>(step));
  }
  return list;
}

Json ToNormal(const std::vector<Condition>& conditions) {
  Json list = Json::MakeArray();
  for (const Condition& condition : conditions) {
    Json one = Json::MakeObject({{"variable", condition.variable}});
    if (!condition.chosen.empty()) {
      one.Set("chosen", Json::MakeArray());
      for (const size_t place : condition.chosen) one.Find("chosen")->Append(place);
    }
    if (std::isfinite(condition.at_least)) one.Set("at_least", condition.at_least);
    if (std::isfinite(condition.at_most)) one.Set("at_most", condition.at_most);
    list.Append(std::move(one));
  }
  return list;
}

Json ToNormal(const Space& space) {
  Json variables = Json::MakeArray();
  for (const Variable& variable : space.variables) {
    const Domain& domain = variable.domain;
    variables.Append(Json::MakeObject({{"path", ToNormal(variable.path)},
                                       {"kind", KindNames().at(domain.kind)},
                                       {"lower", domain.lower},
                                       {"upper", domain.upper},
                                       {"q", domain.q},
                                       {"values", Json(Json::Array(domain.values))}}));
    if (!variable.conditions.empty())
      variables.array().back().Set("conditions", ToNormal(variable.conditions));
  }
  Json json = Json::MakeObject({{"skeleton", space.skeleton}, {"variables", std::move(variables)}});
  // Left out where it says nothing: releases before it do not know it.
  if (space.optional.empty()) return json;
  Json optional = Json::MakeArray();
  for (const OptionalMember& member : space.optional)
    optional.Append(Json::MakeObject({{"path", ToNormal(member.path)},
                                      {"inside", ToNormal(member.inside)},
                                      {"conditions", ToNormal(member.conditions)}}));
  json.Set("optional", std::move(optional));
  return json;
}

Json ToNormal(const std::vector<StopRule>& rules) {
  Json list = Json::MakeArray();
  for (const StopRule& rule : rules)
    list.Append(Json::MakeObject(
        {{"key", rule.key}, {"at_most", rule.at_most}, {"threshold", rule.threshold}}));
  return list;
}

Json ToNormal(const std::vector<RetryRule>& rules) {
  Json list = Json::MakeArray();
  for (const RetryRule& rule : rules) {
    Json codes = Json::MakeArray();
    for (int code : rule.exit_codes) codes.Append(code);
    Json item = Json::MakeObject({{"exit_codes", std::move(codes)},
                                  {"log", rule.log},
                                  {"then", RetryActionName(rule.then)},
                                  {"off", rule.off}});
    if (rule.out_of_gpu_memory) item.Set("oom", true);
    list.Append(std::move(item));
  }
  return list;
}

Json ToNormal(const CheckpointPolicy& policy) {
  return Json::MakeObject({{"num_to_keep", policy.num_to_keep ? Json(*policy.num_to_keep) : Json()},
                           {"score_attribute", policy.score_attribute},
                           {"score_order", NameOf(policy.score_order)},
                           {"durable_after", DurableAfterName(policy.durable_after)}});
}

Json ToNormal(const DriverSpec& driver) {
  Json json = Json::MakeObject({{"suggests", driver.searches},
                                {"judges", driver.schedules},
                                {"chooses", driver.selects_next},
                                {"watches", driver.observes},
                                {"search", driver.search},
                                {"scheduler", driver.scheduler}});
  if (driver.explores) json.Set("explores", true);
  if (driver.allocates) json.Set("allocates", true);
  return json;
}

Json ToNormal(const std::vector<InputFile>& inputs) {
  Json list = Json::MakeArray();
  for (const InputFile& input : inputs)
    list.Append(Json::MakeObject({{"manifest", input.manifest}, {"env", input.env}}));
  return list;
}

void AddPreflight(const PreflightSpec& preflight, Json& json) {
  if (preflight.wanted)
    json.Set("preflight", Json::MakeObject({{"min_bus_gbps", preflight.min_bus_gbps}}));
}

Json ToNormal(const JobSpec& spec) {
  Json json = Json::MakeObject({{"name", spec.name},
                                {"argv", TextsOf(spec.argv)},
                                {"bundle", spec.bundle},
                                {"cwd", spec.cwd},
                                {"env", MapOf(spec.env)},
                                {"resources", ToNormal(spec.resources)}});
  AddPreflight(spec.preflight, json);
  return json;
}

}  // namespace

std::string NormalText(const ResourceRequest& request) { return ToNormal(request).Dump(); }

std::string NormalText(const JobSpec& spec) { return ToNormal(spec).Dump(); }

std::string NormalText(const ExecutorSpec& spec) {
  return Json::MakeObject({{"program", ToNormal(spec.program)},
                           {"inputs", ToNormal(spec.inputs)},
                           {"params", spec.params},
                           {"detached", spec.detached},
                           {"actor_name", spec.actor_name},
                           {"actor_class", spec.actor_class},
                           {"max_restarts", spec.max_restarts}})
      .Dump();
}

std::string NormalText(const ExperimentSpec& spec) {
  Json json = Json::MakeObject({{"name", spec.name},
                                {"trainable", spec.trainable},
                                {"command", TextsOf(spec.command)},
                                {"space", ToNormal(spec.space)},
                                {"num_samples", spec.num_samples},
                                {"search", ToNormal(spec.search)},
                                {"metric", spec.metric},
                                {"mode", NameOf(spec.mode)},
                                {"strict_metric", spec.strict_metric},
                                {"scheduler", ToNormal(spec.scheduler)},
                                {"stop", ToNormal(spec.stop)},
                                {"resources", ToNormal(spec.resources)},
                                {"max_concurrent", spec.max_concurrent},
                                {"limit_cpu", spec.limit_cpu},
                                {"short_trials", spec.short_trials},
                                {"priority", spec.priority},
                                {"max_failures", spec.max_failures},
                                {"fail_fast", spec.fail_fast},
                                {"retry", ToNormal(spec.retry)},
                                {"breaker", Json::MakeObject({{"trials", spec.breaker.trials},
                                                              {"within_ms", spec.breaker.within}})},
                                {"watchdog", Json::MakeObject({{"factor", spec.watchdog.factor},
                                                               {"min_ms", spec.watchdog.min},
                                                               {"restarts", spec.watchdog.restarts},
                                                               {"dump", spec.watchdog.dump}})},
                                {"time_budget_ms", spec.time_budget},
                                {"seed", spec.seed ? Json(*spec.seed) : Json()},
                                {"env", MapOf(spec.env)},
                                {"results_dir", spec.results_dir},
                                {"report_regex", spec.report_regex},
                                {"checkpoints", ToNormal(spec.checkpoints)},
                                {"driver", ToNormal(spec.driver)},
                                {"bundle", spec.bundle},
                                {"inputs", ToNormal(spec.inputs)},
                                {"cwd", spec.cwd}});
  // Left out where they say nothing: releases before them do not know them.
  if (!spec.objectives.empty()) {
    Json objectives = Json::MakeArray();
    for (const Objective& each : spec.objectives)
      objectives.Append(Json::MakeObject({{"metric", each.metric}, {"mode", NameOf(each.mode)}}));
    json.Set("objectives", std::move(objectives));
  }
  if (spec.reallocation.is_given()) json.Set("reallocation", NormalReallocation(spec.reallocation));
  if (spec.stop_when.is_given()) json.Set("stop_when", spec.stop_when.text);
  if (spec.plateau.is_given()) json.Set("plateau", NormalPlateau(spec.plateau));
  if (spec.experiment_plateau.is_given())
    json.Set("experiment_plateau", NormalExperimentPlateau(spec.experiment_plateau));
  if (!spec.constraints.empty()) json.Set("constraints", ToNormal(spec.constraints));
  AddPreflight(spec.preflight, json);
  if (spec.suspend) json.Set("suspend", true);
  if (spec.compares_configurations) json.Set("compares_configurations", true);
  return json.Dump();
}

}  // namespace rt
