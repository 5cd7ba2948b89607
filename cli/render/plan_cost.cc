#include "cli/render/plan_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "common/base/strings.h"
#include "common/spec/gpu_type.h"

namespace rt {
namespace {

double InCents(double price) { return std::round(price * 100) / 100; }

std::optional<double> PriceOfNode(const Json& node) {
  const Json* labels = node.Find("labels");
  const std::string text =
      labels != nullptr && labels->is_object() ? labels->GetString(kPriceLabel) : "";
  char* end = nullptr;
  const double price = std::strtod(text.c_str(), &end);
  const bool is_price = !text.empty() && *end == 0 && std::isfinite(price) && price > 0;
  return is_price ? std::optional(price) : std::nullopt;
}

// The gpus of a node that has this type; 0: it has another one, or takes no work.
double GpusOfType(const Json& node, const std::string& type) {
  const Json* total = node.Find("resources_total");
  if (total == nullptr || !total->is_object() || node.GetString("state") != "READY") return 0;
  const Json* custom = total->Find("custom");
  const bool has_type =
      custom != nullptr && custom->is_object() && custom->Find(GpuTypeResource(type)) != nullptr;
  return has_type ? total->GetDouble("gpu") : 0;
}

}  // namespace

Json CostsOfGpuTypes(const ResourceRequest& wanted, const Json& nodes) {
  Json costs = Json::MakeArray();
  const double gpus = static_cast<double>(wanted.Total().gpu) / static_cast<double>(kUnit);
  for (const std::string& type : wanted.gpu_types) {
    std::optional<double> least;
    int64_t count = 0;
    for (const Json& node : nodes.is_array() ? nodes.array() : Json::Array()) {
      const double there = GpusOfType(node, type);
      if (there <= 0) continue;
      ++count;
      const std::optional<double> price = PriceOfNode(node);
      if (price && (!least || *price * gpus / there < *least)) least = *price * gpus / there;
    }
    costs.Append(Json::MakeObject({{"gpu_type", type},
                                   {"cost_per_hour", least ? Json(InCents(*least)) : Json()},
                                   {"nodes", count}}));
  }
  return costs;
}

std::string TextOfGpuTypeCosts(const Json& plan) {
  const Json* costs = plan.Find("gpu_type_costs");
  if (costs == nullptr || !costs->is_array() || costs->array().empty()) return "";
  std::vector<std::string> parts;
  for (const Json& one : costs->array()) {
    const Json* cost = one.Find("cost_per_hour");
    std::string part = one.GetString("gpu_type");
    if (cost->is_number()) part += " at " + FormatDouble(cost->AsDouble()) + " an hour";
    else part += one.GetInt("nodes") == 0 ? " (no node has it now)" : " (its price is not known)";
    parts.push_back(std::move(part));
  }
  return "each costs    " + Join(parts, ", else ") + "\n";
}

Json CostOfPools(const ClusterSpec& spec) {
  // The price of each pool, and how many machines it may have beyond its min_workers.
  std::vector<std::pair<double, int>> more;
  double least = 0;
  int left = spec.max_workers;
  for (const NodePool& pool : spec.pools) {
    if (pool.price_per_hour.empty()) return {};
    const double price = std::atof(pool.price_per_hour.c_str());
    least += price * (pool.min_workers + (pool.is_head ? 1 : 0));
    left -= pool.min_workers;
    more.emplace_back(price, pool.max_workers - pool.min_workers);
  }
  if (more.empty()) return {};
  std::sort(more.rbegin(), more.rend());
  double most = least;
  for (const auto& [price, count] : more) {
    const int added = std::clamp(count, 0, std::max(left, 0));
    most += price * added;
    left -= added;
  }
  return Json::MakeObject({{"least", InCents(least)}, {"most", InCents(most)}});
}

}  // namespace rt
