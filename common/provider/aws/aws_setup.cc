#include "common/provider/aws/aws_setup.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/ec2_provider.h"
#include "common/provider/aws/run_parameters.h"
#include "common/spec/experiment_spec.h"

namespace rt {
namespace {

constexpr size_t kTagsMax = 40;  // EC2 takes 50, and some are ours.

class AwsSetup final : public ProviderSetup {
 public:
  explicit AwsSetup(Ec2ProviderOptions options) : options_(std::move(options)) {}

  absl::StatusOr<std::vector<Resources>> NodeSizes() const override {
    return std::vector<Resources>{};
  }
  Resources SizeOf(const PoolSpec& pool) const override { return pool.each; }
  bool SharesAccount() const override { return false; }
  absl::StatusOr<std::unique_ptr<NodeProvider>> Start(const std::vector<PoolSpec>& pools,
                                                      ProviderContext context) const override {
    for (const PoolSpec& pool : pools) {
      const bool is_known =
          std::any_of(options_.pools.begin(), options_.pools.end(),
                      [&](const Ec2Pool& known) { return known.name == pool.name; });
      if (!is_known) return Invalid("provider/pools says nothing of the pool '" + pool.name + "'");
      if (pool.each.cpu == 0)
        return Invalid("pools/" + pool.name + ": the resources of its instances are not given");
    }
    Ec2ProviderOptions options = options_;
    options.network.tags = {{"ray-cluster-name", options.cluster_name},
                            {kEc2ClusterTag, context.cluster_id}};
    options.context = std::move(context);
    return MakeEc2Provider(std::move(options));
  }

 private:
  const Ec2ProviderOptions options_;
};

std::vector<std::string> ZonesOf(const std::string& text) {
  std::vector<std::string> zones;
  for (const std::string& part : Split(text, ','))
    if (const std::string zone(Trim(part)); !zone.empty()) zones.push_back(zone);
  return zones;
}

absl::Status ReadTags(const Json& tags, std::map<std::string, std::string>& read) {
  if (!tags.is_object() || tags.object().size() > kTagsMax)
    return InvalidAt("provider/tags", "tags must be a map of at most 40 texts");
  for (const auto& [key, value] : tags.object()) {
    const std::string path = "provider/tags/" + key;
    const bool is_ours = key.starts_with("rt-") || key.starts_with("ray-");
    if (is_ours || key.starts_with("aws:"))
      return InvalidAt(path, "the tag '" + Excerpt(key) + "' has a reserved name");
    if (!value.is_string()) return InvalidAt(path, "a tag must be a text");
    if (key.size() > 128 || value.AsString().size() > 256)
      return InvalidAt(path, "a tag has a name of at most 128 bytes and a value of at most 256");
    read[key] = value.AsString();
  }
  return absl::OkStatus();
}

absl::Status ReadGroup(const Json& group, Ec2NetworkSpec& network) {
  const std::string at = "provider/security_group";
  if (!group.is_object()) return InvalidAt(at, "security_group must be a map of keys");
  const std::vector<std::string> known = {"GroupName", "IpPermissions"};
  for (const auto& [key, value] : group.object())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return InvalidAt(at + "/" + key, "unknown key '" + Excerpt(key) + "'",
                       DidYouMean(key, known));
  network.group_name = group.GetString("GroupName", network.group_name);
  if (network.group_name.empty() || network.group_name.size() > 255 ||
      network.group_name.starts_with("sg-"))
    return InvalidAt(at + "/GroupName",
                     "a GroupName has at most 255 bytes and does not start with sg-");
  const Json* permissions = group.Find("IpPermissions");
  if (permissions == nullptr || permissions->is_null()) return absl::OkStatus();
  if (!permissions->is_array()) return InvalidAt(at + "/IpPermissions", "must be a list");
  for (size_t i = 0; i < permissions->array().size(); ++i)
    RT_RETURN_IF_ERROR(
        FlattenForEc2(permissions->array()[i], at + "/IpPermissions/" + std::to_string(i))
            .status());
  network.ingress = *permissions;
  return absl::OkStatus();
}

absl::Status ReadPrograms(const Json& programs, Ec2Programs& read) {
  RT_RETURN_IF_ERROR(CheckKeys(programs, {"url", "sha256"}, "provider/programs"));
  read = {programs.GetString("url"), programs.GetString("sha256")};
  const bool is_digest = read.sha256.size() == 64 &&
                         read.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!read.url.starts_with("https://") && !read.url.starts_with("http://"))
    return InvalidAt("provider/programs/url", "must be an http or https address");
  if (!is_digest)
    return InvalidAt("provider/programs/sha256", "must be the 64 hex digits of a SHA-256");
  return absl::OkStatus();
}

absl::Status ReadPorts(const Json& ports, std::vector<uint16_t>& read) {
  const bool is_list = ports.is_array() && ports.array().size() <= 8;
  for (size_t i = 0; is_list && i < ports.array().size(); ++i) {
    const Json& port = ports.array()[i];
    if (!port.is_int() || port.AsInt() < 1 || port.AsInt() > 65'535)
      return InvalidAt("provider/open_ports/" + std::to_string(i), "must be a port");
    read.push_back(static_cast<uint16_t>(port.AsInt()));
  }
  return is_list ? absl::OkStatus()
                 : InvalidAt("provider/open_ports", "must be a list of at most 8 ports");
}

absl::Status ReadPools(const Json& pools, Ec2ProviderOptions& options) {
  if (!pools.is_object()) return InvalidAt("provider/pools", "pools must be a map of node types");
  for (const auto& [name, pool] : pools.object()) {
    const std::string path = "provider/pools/" + name;
    RT_RETURN_IF_ERROR(
        CheckKeys(pool, {"node_config", "spot", "max_price", "resources", "labels"}, path));
    RT_ASSIGN_OR_RETURN(Ec2Pool read, ReadEc2Pool(name, pool, path));
    options.pools.push_back(std::move(read));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ec2ProviderOptions> ReadAwsOptions(const Json& provider) {
  RT_RETURN_IF_ERROR(CheckKeys(provider,
                               {"type", "region", "availability_zone", "cluster_name", "user",
                                "tags", "open_ports", "security_group", "programs", "endpoint",
                                "use_internal_ips", "cache_stopped_nodes", "pools"},
                               "provider"));
  Ec2ProviderOptions options{.cluster_name = provider.GetString("cluster_name", "default"),
                             .user = provider.GetString("user"),
                             .environment = ProcessEnvironment()};
  RT_ASSIGN_OR_RETURN(options.endpoint, FindAwsEndpoint({.service = "EC2",
                                                         .url = provider.GetString("endpoint"),
                                                         .region = provider.GetString("region"),
                                                         .region_otherwise = "us-west-2"},
                                                        options.environment));
  options.network.zones = ZonesOf(provider.GetString("availability_zone"));
  options.network.group_name = Ec2GroupName(options.cluster_name);
  const std::pair<const char*, std::function<absl::Status(const Json&)>> parts[] = {
      {"tags", [&](const Json& json) { return ReadTags(json, options.tags); }},
      {"security_group", [&](const Json& json) { return ReadGroup(json, options.network); }},
      {"programs", [&](const Json& json) { return ReadPrograms(json, options.programs); }},
      {"open_ports", [&](const Json& json) { return ReadPorts(json, options.network.open_ports); }},
      {"pools", [&](const Json& json) { return ReadPools(json, options); }}};
  for (const auto& [key, read] : parts)
    if (const Json* json = provider.Find(key); json != nullptr && !json->is_null())
      RT_RETURN_IF_ERROR(read(*json));
  return options;
}

absl::StatusOr<std::unique_ptr<ProviderSetup>> ReadAwsSetup(const Json& provider) {
  RT_ASSIGN_OR_RETURN(Ec2ProviderOptions options, ReadAwsOptions(provider));
  return std::make_unique<AwsSetup>(std::move(options));
}

}  // namespace rt
