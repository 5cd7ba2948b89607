#include "cli/render/plan.h"

#include <algorithm>
#include <cmath>

#include "cli/render/nouns.h"
#include "cli/render/plan_cost.h"
#include "cli/render/plan_places.h"
#include "cli/render/plan_space.h"
#include "cli/render/spans.h"
#include "cli/render/table.h"
#include "common/algorithms/registry.h"
#include "common/base/strings.h"
#include "common/spec/objectives.h"
#include "common/spec/resource_request.h"

namespace rt {
namespace {

// As many options of an algorithm fit in a line.
constexpr size_t kOptionsShownMax = 8;

std::string TextOfBrackets(const Json& plan) {
  const Json* brackets = plan.Find("brackets");
  if (brackets == nullptr || !brackets->is_array()) return "";
  Table table({"BRACKET", "SHARE", "MILESTONE", "TRIALS THAT REACH IT"});
  for (const Json& bracket : brackets->array())
    for (const Json& rung : bracket.Find("rungs")->array()) {
      Json percent(std::round(bracket.GetDouble("share") * 100));
      table.Add({CellText(bracket.Find("bracket")), CellText(&percent) + "%",
                 CellText(rung.Find("milestone")), CellText(rung.Find("trials"))});
    }
  return "\n" + table.Render();
}

bool IsGang(const Json& plan) {
  const Json* each = plan.Find("resources_per_trial");
  const Json* bundles = each == nullptr ? nullptr : each->Find("bundles");
  return bundles != nullptr && bundles->is_array();
}

std::string TextOfPlaces(const Json& plan) {
  const Json* places = plan.Find("places");
  if (places == nullptr || !places->is_array())
    return "no cluster selected, so placement is unknown; use -c NAME\n";
  if (places->array().empty()) return "no node of the cluster is ready\n";
  if (plan.GetInt("side_by_side") == 0)
    return std::string("side by side  none: ") +
           (IsGang(plan) ? "the nodes of the cluster cannot hold all bundles of one at once\n"
                                 : "no node of the cluster is big enough for one\n");
  std::string text = "side by side  " + CellText(plan.Find("side_by_side")) + " (";
  for (size_t i = 0; i < places->array().size() && i < 8; ++i) {
    const Json& place = places->array()[i];
    text += (i == 0 ? "" : ", ") + place.GetString("node") + ": " + CellText(place.Find("bundles"));
    if (IsGang(plan)) text += place.GetInt("bundles") == 1 ? " bundle" : " bundles";
  }
  return text + (places->array().size() > 8 ? ", …)\n" : ")\n");
}

// "NAME: max_t 81, brackets 1": what the algorithm would use. Defaults are left out where a line
// cannot hold all options.
std::string TextOfAlgorithm(const Json& plan, AlgorithmKind kind) {
  const std::string key(KeyOf(kind));
  std::string text = plan.GetString(key), separator = ": ";
  const Json::Object& options = plan.Find(key + "_options")->object();
  const AlgorithmTable* table = FindTable(kind, text);
  const Json defaults = table == nullptr ? Json::MakeObject() : DefaultsOf(*table).options;
  size_t left_out = 0;
  for (const auto& [name, value] : options) {
    const Json* usual = defaults.Find(name);
    if (options.size() > kOptionsShownMax && usual != nullptr && *usual == value) {
      ++left_out;
      continue;
    }
    const std::string shown = value.is_array() ? std::to_string(value.array().size())
                                               : CellText(&value);
    text += std::exchange(separator, ", ") + name + " " + shown;
  }
  if (left_out > 0) text += separator + std::to_string(left_out) + " options at their defaults";
  return text + "\n";
}

// The lines with the metric or the objectives, and with the constraints.
std::string TextOfMetric(const Json& plan) {
  const Json* objectives = plan.Find("objectives");
  const Json* constraints = plan.Find("constraints");
  std::string text;
  if (objectives->is_array()) {
    std::vector<std::string> each;
    for (const Json& one : objectives->array())
      each.push_back(one.GetString("metric") + " (" + one.GetString("mode") + ")");
    text += "objectives    " + Join(each, ", ") + "\n";
  } else if (const std::string metric = plan.GetString("metric"); !metric.empty()) {
    text += "metric        " + metric + " (" + plan.GetString("mode") + ")\n";
  }
  if (!constraints->is_object()) return text;
  std::vector<std::string> bounds;
  for (const auto& [name, bound] : constraints->object())
    for (const auto& [comparison, limit] : bound.object())
      bounds.push_back(name + " " + comparison + " " + CellText(&limit));
  return text + "constraints   " + Join(bounds, ", ") + "\n";
}

std::string TextOfExperiment(const Json& plan) {
  std::string text = "experiment    " + plan.GetString("name") + "\n";
  const Json* trials = plan.Find("trials");
  text += "trials        " + (trials->is_null() ? std::string("unlimited") : trials->Dump()) +
          " (" +
          Counted(static_cast<size_t>(plan.GetInt("grid_points")), "grid point", "grid points") +
          ", num_samples " + CellText(plan.Find("num_samples")) + ")\n";
  text += TextOfMetric(plan);
  text += "search        " + TextOfAlgorithm(plan, AlgorithmKind::kSearch);
  if (const std::string choice = plan.GetString("search_choice"); !choice.empty())
    text += "chooses       " + choice + "\n";
  text += "scheduler     " + TextOfAlgorithm(plan, AlgorithmKind::kScheduler);
  text += "each needs    " + plan.GetString("needs") + "\n" + TextOfPlaces(plan);
  text += TextOfGpuTypeCosts(plan);
  if (const Json* share = plan.Find("share_of_full"); share != nullptr && !share->is_null()) {
    Json percent(std::round(share->AsDouble() * 100));
    text += "training      about " + CellText(&percent) +
            "% of what all trials would train to the end\n";
  }
  return text + TextOfBrackets(plan) + TextOfSpace(plan) + "nothing was started\n";
}

// The kinds of machines that a cloud would make.
std::string TextOfPools(const Json& pools) {
  Table table({"POOL", "MACHINES", "TYPE", "IMAGE", "MARKET", "RESOURCES"});
  for (const Json& pool : pools.array()) {
    std::string machines = CellText(pool.Find("min_workers"));
    if (pool.GetInt("max_workers") != pool.GetInt("min_workers"))
      machines += " to " + CellText(pool.Find("max_workers"));
    if (pool.GetBool("is_head")) machines.insert(0, "the head, and ");
    if (pool.GetBool("is_head") && pool.GetInt("max_workers") == 0) machines = "the head";
    std::string market = pool.GetBool("spot") ? "spot" : "on demand";
    if (pool.GetString("fallback") == "on_demand") market += ", else on demand";
    if (const std::string price = pool.GetString("max_price"); !price.empty())
      market += ", at most " + price + " per hour";
    if (const std::string price = pool.GetString("price_per_hour"); !price.empty())
      market += ", " + price + " an hour";
    table.Add({pool.GetString("name"), machines, CellText(pool.Find("instance_type")),
               CellText(pool.Find("image")), market, CellText(pool.Find("resources"))});
  }
  return pools.array().empty() ? "" : table.Render();
}

std::string TextOfSetup(const Json& plan) {
  std::string text;
  for (const Json& command : plan.Find("setup_commands")->array())
    text += "setup         " + command.AsString() + "\n";
  for (const auto& [there, here] : plan.Find("file_mounts")->object())
    text += "file mount    " + here.AsString() + " -> " + there + "\n";
  return text;
}

std::string TextOfCluster(const Json& plan) {
  const std::string region = plan.GetString("region");
  std::string text = "cluster       " + plan.GetString("cluster_name") + " (provider " +
                     plan.GetString("provider") + (region.empty() ? "" : ", " + region) + ")\n";
  const Json* nodes = plan.Find("nodes");
  Table table({"NODE", "TYPE", "RESOURCES"});
  for (const Json& node : nodes->array())
    table.Add({node.GetString("name"), CellText(node.Find("type")), node.GetString("resources")});
  text += nodes->array().empty() ? "" : table.Render();
  const Json& pools = *plan.Find("pools");
  text += TextOfPools(pools);
  if (!pools.array().empty())
    text += "max_workers   " + CellText(plan.Find("max_workers")) +
            " workers in all pools together, not counting the head\n";
  text += TextOfSetup(plan);
  if (plan.GetBool("by_demand"))
    text += "by demand     " + CellText(plan.Find("min_workers")) + " to " +
            std::to_string(nodes->array().size()) + " of these run; an idle one ends after " +
            CellText(plan.Find("idle_timeout_s")) + " s\n";
  const Json* cost = plan.Find("cost_per_hour");
  if (cost->is_null())
    text += "cost          not known: not every node type has a price_per_hour\n";
  else if (cost->is_object())
    text += "cost          " + CellText(cost->Find("least")) + " to " +
            CellText(cost->Find("most")) + " an hour, by the prices of the file\n";
  else text += "cost          nothing: no machine is rented\n";
  for (const Json& warning : plan.Find("warnings")->array())
    text += "warning       " + warning.AsString() + "\n";
  return text + "nothing was started\n";
}

Json TextOrNothing(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json PoolsJson(const ClusterSpec& spec) {
  Json pools = Json::MakeArray();
  for (const NodePool& pool : spec.pools)
    pools.Append(Json::MakeObject({{"name", pool.name},
                                   {"is_head", pool.is_head},
                                   {"min_workers", pool.min_workers},
                                   {"max_workers", pool.max_workers},
                                   {"idle_timeout_s", pool.idle_timeout_s},
                                   {"instance_type", TextOrNothing(pool.instance_type)},
                                   {"image", TextOrNothing(pool.image)},
                                   {"spot", pool.is_spot},
                                   {"fallback", pool.falls_back ? Json("on_demand") : Json()},
                                   {"max_price", TextOrNothing(pool.max_price)},
                                   {"price_per_hour", TextOrNothing(pool.price_per_hour)},
                                   {"resources", TextOrNothing(pool.resources)},
                                   {"labels", TextOrNothing(pool.labels)}}));
  return pools;
}

}  // namespace

Json PlanExperiment(const ExperimentSpec& spec, const Json& nodes) {
  std::optional<uint64_t> trials = spec.TrialsTotal();
  SchedulePlan schedule = SchedulerOf(spec).PlanOf(spec, trials);
  Json places, together;
  if (nodes.is_array()) {
    int64_t most = spec.max_concurrent > 0 ? spec.max_concurrent : kSideBySideMax;
    if (trials) most = std::min(most, static_cast<int64_t>(*trials));
    SideBySide count = CountSideBySide(nodes, spec.resources, most);
    places = std::move(count.places);
    together = Json(count.trials);
  }
  return Json::MakeObject(
      {{"kind", "experiment"},
       {"name", spec.name},
       {"trials", trials ? Json(*trials) : Json()},
       {"grid_points", spec.space.grid_points},
       {"num_samples", spec.num_samples},
       {"metric", TextOrNothing(spec.metric)},
       {"mode", spec.metric.empty() ? Json() : Json(spec.mode == Mode::kMax ? "max" : "min")},
       {"objectives", ObjectivesJson(spec)},
       {"constraints", ConstraintsJson(spec)},
       {"needs", Describe(spec.resources)},
       {"resources_per_trial", ToJson(spec.resources)},
       {"max_concurrent", spec.max_concurrent == 0 ? Json() : Json(spec.max_concurrent)},
       {"side_by_side", std::move(together)},
       {"places", std::move(places)},
       {"search", spec.search.name},
       {"search_options", spec.search.options},
       {"search_choice", TextOrNothing(SearcherOf(spec).Explain(spec))},
       {"scheduler", spec.scheduler.name},
       {"scheduler_options", spec.scheduler.options},
       {"brackets", std::move(schedule.brackets)},
       {"share_of_full", std::move(schedule.share_of_full)},
       {"gpu_type_costs", CostsOfGpuTypes(spec.resources, nodes)},
       {"cost_per_hour", Json()}});
}

Json PlanCluster(const ClusterSpec& spec, int cpus) {
  bool local = spec.provider_type == "local";
  Json nodes = Json::MakeArray(), warnings = Json::MakeArray();
  Json type = spec.worker_type ? Json(spec.worker_type->name) : Json();
  const std::optional<PoolShape> pool = local ? LocalPool(spec, cpus) : std::nullopt;
  if (local)
    for (const WorkerShape& worker : LocalWorkers(spec, cpus))
      nodes.Append(Json::MakeObject(
          {{"name", worker.name}, {"type", type}, {"resources", worker.resources}}));
  for (const HostSpec& host : spec.hosts.hosts)
    nodes.Append(Json::MakeObject(
        {{"name", host.name},
         {"type", type},
         {"resources", host.resources.empty() ? "all that it has" : host.resources}}));
  Json setup = Json::MakeArray(), mounts = Json::MakeObject();
  if (!local) {
    for (const std::string& command : spec.setup.CommandsOf(true)) setup.Append(command);
    for (const auto& [there, here] : spec.setup.file_mounts) mounts.Set(there, here);
  }
  const bool has_pools = !local && spec.provider_type != "ssh";
  for (const std::string& warning : spec.warnings) warnings.Append(warning);
  const std::string overcommit = local ? OvercommitWarning(spec, cpus) : "";
  if (!overcommit.empty()) warnings.Append(overcommit);
  if (has_pools && spec.provider_type != "aws")
    warnings.Append("rt up does not support the provider '" + spec.provider_type +
                    "' yet, only local, ssh and aws; the file was checked");
  return Json::MakeObject({{"kind", "cluster"},
                           {"cluster_name", spec.cluster_name},
                           {"provider", spec.provider_type},
                           {"min_workers", pool ? pool->min_workers : spec.min_workers},
                           {"max_workers", spec.max_workers},
                           {"by_demand", pool.has_value()},
                           {"idle_timeout_s", pool ? Json(pool->idle_timeout_s) : Json()},
                           {"nodes", std::move(nodes)},
                           {"region", spec.region.empty() ? Json() : Json(spec.region)},
                           {"pools", has_pools ? PoolsJson(spec) : Json::MakeArray()},
                           {"setup_commands", std::move(setup)},
                           {"file_mounts", std::move(mounts)},
                           {"cost_per_hour", has_pools ? CostOfPools(spec) : Json(0)},
                           {"warnings", std::move(warnings)}});
}

std::string RenderPlan(const Json& plan) {
  bool experiment = plan.GetString("kind") == "experiment";
  // Names and warnings are the file's.
  std::vector<std::string> lines =
      Split(experiment ? TextOfExperiment(plan) : TextOfCluster(plan), '\n');
  for (std::string& line : lines) line = EscapeControl(line);
  return Join(lines, "\n");
}

}  // namespace rt
