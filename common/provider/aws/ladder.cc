#include "common/provider/aws/ladder.h"

#include <algorithm>

#include "common/base/limits_aws.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/run_parameters.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr double kPriceMax = 10'000;
constexpr size_t kSubnetsMax = 20, kTypesMax = 20;

absl::StatusOr<std::vector<std::string>> ReadTexts(const Json& json, const std::string& path,
                                                   size_t most) {
  std::vector<std::string> texts;
  const bool is_list = json.is_array() && !json.array().empty() && json.array().size() <= most;
  if (!is_list) return InvalidAt(path, "must be a list of 1 to " + std::to_string(most) + " texts");
  for (size_t i = 0; i < json.array().size(); ++i) {
    const Json& item = json.array()[i];
    if (!item.is_string() || item.AsString().empty())
      return InvalidAt(path + "/" + std::to_string(i), "must be a text");
    texts.push_back(item.AsString());
  }
  return texts;
}

absl::StatusOr<std::string> ReadPrice(const Json& price, const std::string& path) {
  const std::optional<double> dollars =
      price.is_number() ? std::optional(price.AsDouble()) : std::nullopt;
  std::string text = price.is_string() ? std::string(Trim(price.AsString())) : "";
  if (text.starts_with('$')) text.erase(0, 1);
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789.") == text.npos &&
                         std::count(text.begin(), text.end(), '.') <= 1 && text != ".";
  const double value = dollars.has_value() ? *dollars : is_number ? std::stod(text) : 0;
  if (!(value > 0 && value <= kPriceMax))
    return InvalidAt(path, "the price must be above 0, in dollars an hour", "max_price: 0.25");
  return dollars.has_value() ? FormatDouble(value) : text;
}

// {fallback: on_demand, instance_types: […]}, or true and false.
absl::Status ReadSpot(const Json& spot, const std::string& path, Ec2Pool& pool) {
  if (spot.is_bool()) {
    pool.is_spot = spot.AsBool();
    return absl::OkStatus();
  }
  if (!spot.is_object())
    return InvalidAt(path, "spot must be true, false or a map", "spot: {fallback: on_demand}");
  const std::vector<std::string> known = {"fallback", "instance_types"};
  for (const auto& [key, value] : spot.object())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return InvalidAt(path + "/" + key, "unknown key '" + Excerpt(key) + "'",
                       DidYouMean(key, known));
  pool.is_spot = true;
  if (const Json* types = spot.Find("instance_types"); types != nullptr && !types->is_null()) {
    RT_ASSIGN_OR_RETURN(auto more, ReadTexts(*types, path + "/instance_types", kTypesMax));
    for (std::string& type : more)
      if (std::find(pool.instance_types.begin(), pool.instance_types.end(), type) ==
          pool.instance_types.end())
        pool.instance_types.push_back(std::move(type));
  }
  const Json* fallback = spot.Find("fallback");
  if (fallback == nullptr || fallback->is_null()) return absl::OkStatus();
  const std::string text = fallback->is_string() ? fallback->AsString() : "";
  if (text != "on_demand" && text != "none")
    return InvalidAt(path + "/fallback", "fallback must be on_demand or none");
  pool.falls_back = text == "on_demand";
  return absl::OkStatus();
}

absl::Status ReadMarket(const Json& config, const std::string& path, Ec2Pool& pool) {
  const Json* market = config.Find("InstanceMarketOptions");
  if (market == nullptr || market->is_null()) return absl::OkStatus();
  const std::string at = path + "/InstanceMarketOptions";
  if (!market->is_object()) return InvalidAt(at, "InstanceMarketOptions must be a map of keys");
  const std::string type = market->GetString("MarketType", "spot");
  if (type != "spot" && type != "capacity-block")
    return InvalidAt(at + (market->Find("MarketType") != nullptr ? "/MarketType" : ""),
                     "MarketType must be spot or capacity-block");
  pool.is_spot = type == "spot";
  const Json* options = market->Find("SpotOptions");
  const Json* price = options == nullptr ? nullptr : options->Find("MaxPrice");
  if (price == nullptr || price->is_null()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(pool.max_price, ReadPrice(*price, at + "/SpotOptions/MaxPrice"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ec2Pool> ReadEc2Pool(const std::string& name, const Json& json,
                                    const std::string& path) {
  Ec2Pool pool{
      .name = name, .resources = json.GetString("resources"), .labels = json.GetString("labels")};
  const Json* config = json.Find("node_config");
  if (config == nullptr || !config->is_object())
    return InvalidAt(path, "the node type needs a node_config with an InstanceType");
  const std::string at = path + "/node_config";
  RT_RETURN_IF_ERROR(RunParametersOf(*config, at).status());
  pool.node_config = *config;
  const Json* type = config->Find("InstanceType");
  if (type == nullptr || !type->is_string() || type->AsString().empty())
    return InvalidAt(type == nullptr ? at : at + "/InstanceType", "an InstanceType is required",
                     "InstanceType: m5.large");
  pool.instance_types.push_back(type->AsString());
  if (const Json* one = config->Find("SubnetId"); one != nullptr && one->is_string())
    pool.subnets.push_back(one->AsString());
  if (const Json* more = config->Find("SubnetIds"); more != nullptr && !more->is_null()) {
    RT_ASSIGN_OR_RETURN(pool.subnets, ReadTexts(*more, at + "/SubnetIds", kSubnetsMax));
  }
  RT_RETURN_IF_ERROR(ReadMarket(*config, at, pool));
  if (const Json* spot = json.Find("spot"); spot != nullptr && !spot->is_null())
    RT_RETURN_IF_ERROR(ReadSpot(*spot, path + "/spot", pool));
  if (const Json* price = json.Find("max_price"); price != nullptr && !price->is_null()) {
    if (!pool.is_spot)
      return InvalidAt(path + "/max_price", "max_price needs spot machines", "write spot: true");
    RT_ASSIGN_OR_RETURN(pool.max_price, ReadPrice(*price, path + "/max_price"));
  }
  return pool;
}

std::vector<LadderStep> LadderOf(const Ec2Pool& pool, const std::vector<Ec2Subnet>& subnets) {
  std::vector<LadderStep> steps;
  std::vector<bool> markets = {pool.is_spot};
  if (pool.is_spot && pool.falls_back) markets.push_back(false);
  for (const bool is_spot : markets)
    for (const std::string& type : pool.instance_types)
      for (const Ec2Subnet& subnet : subnets)
        if (steps.size() < limits::kEc2RungsMax) steps.push_back({type, subnet, is_spot});
  return steps;
}

std::string Describe(const LadderStep& step) {
  return std::string(step.is_spot ? "spot " : "") + step.instance_type + " in " +
         (step.subnet.zone.empty() ? step.subnet.id : step.subnet.zone);
}

}  // namespace rt
