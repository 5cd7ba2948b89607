#include "common/provider/aws/aws_file.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/aws/run_parameters.h"
#include "common/spec/resources.h"

namespace rt {
namespace {

// Ray's names of the two node types of the old form.
constexpr char kOldHead[] = "ray.head.default", kOldWorker[] = "ray.worker.default";
constexpr char kDefaultUser[] = "ubuntu";

struct FoundType {
  Json json;  // As in available_node_types.
  std::string path, config_path;
};

std::map<std::string, FoundType> TypesOf(const Json& cluster) {
  std::map<std::string, FoundType> types;
  if (const Json* listed = cluster.Find("available_node_types"); listed && listed->is_object())
    for (const auto& [name, type] : listed->object()) {
      const std::string path = "available_node_types/" + name;
      types[name] = {type, path, path + "/node_config"};
    }
  if (!types.empty()) return types;
  for (const auto& [key, name] : {std::pair("head_node", kOldHead), {"worker_nodes", kOldWorker}})
    if (const Json* config = cluster.Find(key); config != nullptr && !config->is_null())
      types[name] = {Json::MakeObject({{"node_config", *config}}), key, key};
  return types;
}

// Errors of a pool name a path below its node type: in the old form the map is the node_config.
absl::StatusOr<Ec2Pool> ReadPool(const std::string& name, const FoundType& type) {
  absl::StatusOr<Ec2Pool> pool = ReadEc2Pool(name, type.json, type.path);
  if (pool.ok()) return pool;
  Position position = PositionOf(pool.status());
  const std::string long_path = type.path + "/node_config";
  if (type.config_path == type.path && position.file.starts_with(long_path))
    position.file = type.path + position.file.substr(long_path.size());
  return WithPosition(pool.status(), position);
}

// "k=v,k2=v2"; values with commas cannot be told apart there.
absl::StatusOr<std::string> LabelsOf(const Json& labels, const std::string& path) {
  if (!labels.is_object()) return InvalidAt(path, "labels must be a map of texts");
  std::vector<std::string> parts;
  for (const auto& [key, value] : labels.object()) {
    const std::string text = value.is_string() ? value.AsString() : value.Dump();
    if ((key + text).find_first_of(",=\n") != std::string::npos)
      return InvalidAt(path + "/" + key, "a label must not contain ',' or '='");
    parts.push_back(key + "=" + text);
  }
  return Join(parts, ",");
}

absl::StatusOr<Json> PoolJson(const FoundType& type) {
  Json pool = Json::MakeObject();
  for (const char* key : {"node_config", "spot", "max_price"})
    if (const Json* value = type.json.Find(key); value != nullptr && !value->is_null())
      pool.Set(key, *value);
  if (const Json* labels = type.json.Find("labels"); labels != nullptr && !labels->is_null()) {
    RT_ASSIGN_OR_RETURN(std::string text, LabelsOf(*labels, type.path + "/labels"));
    pool.Set("labels", text);
  }
  const Json* resources = type.json.Find("resources");
  if (resources == nullptr || resources->is_null()) return pool;
  RT_ASSIGN_OR_RETURN(const Resources read, ParseResources(*resources, type.path + "/resources"));
  if (!read.IsZero()) pool.Set("resources", ToFlag(read));
  return pool;
}

}  // namespace

absl::StatusOr<AwsFile> ReadAwsFile(const Json& cluster) {
  AwsFile file;
  file.provider = Json::MakeObject({{"type", "aws"}});
  const Json* provider = cluster.Find("provider");
  if (provider == nullptr || !provider->is_object())
    return InvalidAt("provider", "provider must be a map of keys");
  for (const char* key : {"region", "availability_zone", "tags", "security_group"})
    if (const Json* value = provider->Find(key); value != nullptr && !value->is_null())
      file.provider.Set(key, *value);
  if (provider->GetBool("cache_stopped_nodes"))
    file.warnings.emplace_back(
        "cache_stopped_nodes is ignored: machines are terminated, so that "
        "nothing is paid for");
  file.provider.Set("cluster_name", cluster.GetString("cluster_name", "default"));
  const Json* auth = cluster.Find("auth");
  file.provider.Set("user",
                    auth == nullptr ? kDefaultUser : auth->GetString("ssh_user", kDefaultUser));

  const std::map<std::string, FoundType> types = TypesOf(cluster);
  const std::string head = cluster.GetString("head_node_type", kOldHead);
  Json pools = Json::MakeObject();
  for (const auto& [name, type] : types) {
    RT_ASSIGN_OR_RETURN(Ec2Pool pool, ReadPool(name, type));
    if (name == head) file.head = std::move(pool);
    if (name == head && types.size() > 1) continue;
    RT_ASSIGN_OR_RETURN(Json json, PoolJson(type));
    pools.Set(name, std::move(json));
  }
  if (file.head.name.empty())
    return InvalidAt("", "a cluster on aws needs a node type for its head",
                     "add head_node_type and available_node_types, or head_node");
  file.provider.Set("pools", std::move(pools));
  RT_RETURN_IF_ERROR(ReadAwsSetup(file.provider).status());
  return file;
}

}  // namespace rt
