#include "common/provider/aws/run_instance.h"

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/run_parameters.h"

namespace rt {
namespace {

Json TagList(const std::map<std::string, std::string>& tags) {
  Json list = Json::MakeArray();
  for (const auto& [key, value] : tags)
    list.Append(Json::MakeObject({{"Key", key}, {"Value", value}}));
  return list;
}

// Tags of the file for instances and volumes are merged with ours, which win; other resources'
// stay as they are.
Json TagSpecifications(const Json& config, const std::map<std::string, std::string>& ours) {
  std::map<std::string, std::map<std::string, std::string>> merged = {{"instance", {}},
                                                                      {"volume", {}}};
  if (const Json* theirs = config.Find("TagSpecifications"); theirs && theirs->is_array())
    for (const Json& one : theirs->array()) {
      const Json* tags = one.Find("Tags");
      if (tags == nullptr || !tags->is_array()) continue;
      for (const Json& tag : tags->array())
        merged[one.GetString("ResourceType")][tag.GetString("Key")] = tag.GetString("Value");
    }
  Json list = Json::MakeArray();
  for (auto& [type, tags] : merged) {
    const bool is_tagged = type == "instance" || type == "volume";
    for (const auto& [key, value] : ours) {
      if (is_tagged && key == "Name") tags.emplace(key, value);
      if (is_tagged && key != "Name") tags[key] = value;
    }
    list.Append(Json::MakeObject({{"ResourceType", type}, {"Tags", TagList(tags)}}));
  }
  return list;
}

void SetMarket(const RunInstance& run, Json& config) {
  Json* market = config.Find("InstanceMarketOptions");
  const bool is_block = market != nullptr && market->is_object() &&
                        market->GetString("MarketType") == "capacity-block";
  if (is_block) return;
  if (!run.step.is_spot) {
    config.Erase("InstanceMarketOptions");
    return;
  }
  if (market == nullptr || !market->is_object()) {
    config.Set("InstanceMarketOptions", Json::MakeObject());
    market = config.Find("InstanceMarketOptions");
  }
  market->Set("MarketType", "spot");
  if (run.pool->max_price.empty()) return;
  Json options = market->Find("SpotOptions") ? *market->Find("SpotOptions") : Json::MakeObject();
  options.Set("MaxPrice", run.pool->max_price);
  market->Set("SpotOptions", std::move(options));
}

// EC2 wants subnet and groups in the interfaces where there are any, and in the instance otherwise.
void SetNetwork(const RunInstance& run, Json& config) {
  Json groups = Json::MakeArray();
  groups.Append(run.group);
  config.Erase("SubnetIds");
  Json* interfaces = config.Find("NetworkInterfaces");
  if (interfaces == nullptr || !interfaces->is_array() || interfaces->array().empty()) {
    config.Set("SubnetId", run.step.subnet.id);
    if (!NamesGroups(config)) config.Set("SecurityGroupIds", std::move(groups));
    return;
  }
  config.Erase("SubnetId");
  const Json* named = config.Find("SecurityGroupIds");
  if (named != nullptr && named->is_array() && !named->array().empty()) groups = *named;
  config.Erase("SecurityGroupIds");
  for (Json& one : interfaces->array()) {
    if (!one.is_object() || one.Find("NetworkInterfaceId") != nullptr) continue;
    if (one.Find("SubnetId") == nullptr) one.Set("SubnetId", run.step.subnet.id);
    if (one.Find("Groups") == nullptr) one.Set("Groups", groups);
  }
}

}  // namespace

bool NamesGroups(const Json& config) {
  for (const char* key : {"SecurityGroupIds", "SecurityGroups"})
    if (const Json* groups = config.Find(key);
        groups != nullptr && groups->is_array() && !groups->array().empty())
      return true;
  const Json* interfaces = config.Find("NetworkInterfaces");
  if (interfaces == nullptr || !interfaces->is_array() || interfaces->array().empty()) return false;
  for (const Json& one : interfaces->array())
    if (one.Find("Groups") == nullptr && one.Find("NetworkInterfaceId") == nullptr) return false;
  return true;
}

absl::StatusOr<Ec2Parameters> ParametersOf(const RunInstance& run) {
  Json config = run.pool->node_config;
  config.Set("InstanceType", run.step.instance_type);
  if (!run.image.empty()) config.Set("ImageId", run.image);
  SetMarket(run, config);
  SetNetwork(run, config);
  config.Set("TagSpecifications", TagSpecifications(config, run.tags));
  RT_ASSIGN_OR_RETURN(Ec2Parameters parameters, RunParametersOf(config, "node_config"));
  parameters.emplace_back("MinCount", "1");
  parameters.emplace_back("MaxCount", "1");
  parameters.emplace_back("ClientToken", run.client_token);
  parameters.emplace_back("InstanceInitiatedShutdownBehavior", "terminate");
  parameters.emplace_back("UserData", Base64Encode(run.user_data));
  return parameters;
}

}  // namespace rt
