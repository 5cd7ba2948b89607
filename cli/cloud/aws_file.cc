#include "cli/cloud/aws_file.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/provider/aws/aws_setup.h"
#include "common/provider/aws/run_parameters.h"

namespace rt {
namespace {

constexpr char kDefaultUser[] = "ubuntu";
constexpr int kHeadPort = 6379;  // Ray's.
constexpr int kSshPort = 22;
constexpr size_t kUserBytesMax = 64;

const std::vector<std::string> kAwsProviderKeys = {"type",
                                                   "region",
                                                   "availability_zone",
                                                   "cache_stopped_nodes",
                                                   "use_internal_ips",
                                                   "security_group",
                                                   "tags",
                                                   "programs",
                                                   "dead_man_s",
                                                   "port",
                                                   "endpoint",
                                                   "key_pair",
                                                   "cloudwatch",
                                                   "disable_node_updaters"};

bool IsPlainUser(const std::string& name) {
  return !name.empty() && name.size() <= kUserBytesMax && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

// A text of one line at `path`; empty when it is absent.
absl::StatusOr<std::string> LineAt(const Json& map, const std::string& path,
                                   const std::string& key) {
  const Json* value = map.Find(key);
  if (value == nullptr || value->is_null()) return std::string();
  const bool is_line =
      value->is_string() && !value->AsString().empty() &&
      value->AsString().find_first_of(std::string_view("\0\n\r", 3)) == std::string::npos;
  if (!is_line) return InvalidAt(path + "/" + key, key + " must be a text of one line");
  return value->AsString();
}

// The setup commands of the pool's machines. Those of the node type replace those of the file.
Json SetupOf(const NodePool& pool, const SetupSpec& setup) {
  SetupSpec own = setup;
  if (pool.initialization_commands.has_value()) own.initialization = *pool.initialization_commands;
  if (pool.worker_setup_commands.has_value()) own.worker = *pool.worker_setup_commands;
  Json commands = Json::MakeArray();
  for (const std::string& command : own.CommandsOf(false)) commands.Append(command);
  return commands;
}

// The pool's entry in the provider's configuration; ReadEc2Pool reads it.
Json PoolJson(const NodePool& pool) {
  Json json = Json::MakeObject({{"node_config", pool.node_config}});
  Json types = Json::MakeArray();
  for (const std::string& type : pool.more_types) types.Append(type);
  Json spot = Json::MakeObject({{"fallback", pool.falls_back ? "on_demand" : "none"}});
  if (!pool.more_types.empty()) spot.Set("instance_types", std::move(types));
  json.Set("spot", pool.is_spot ? std::move(spot) : Json(false));
  if (!pool.max_price.empty()) json.Set("max_price", pool.max_price);
  if (!pool.resources.empty()) json.Set("resources", pool.resources);
  if (!pool.labels.empty()) json.Set("labels", pool.labels);
  return json;
}

// Errors name a path below the node type: in the old form the map is the node_config.
absl::StatusOr<Ec2Pool> PoolOf(const NodePool& pool, const Json& json) {
  absl::StatusOr<Ec2Pool> read = ReadEc2Pool(pool.name, json, pool.path);
  if (read.ok()) return read;
  Position position = PositionOf(read.status());
  const std::string long_path = pool.path + "/node_config";
  if (position.file.starts_with(long_path))
    position.file = pool.config_path + position.file.substr(long_path.size());
  return WithPosition(read.status(), position);
}

absl::Status ReadSsh(const Json& cluster, AwsFile& file) {
  file.user = kDefaultUser;
  const Json* auth = cluster.Find("auth");
  if (auth == nullptr || auth->is_null()) return absl::OkStatus();
  RT_ASSIGN_OR_RETURN(const std::string user, LineAt(*auth, "auth", "ssh_user"));
  if (!user.empty()) file.user = user;
  if (!IsPlainUser(file.user))
    return InvalidAt("auth/ssh_user", "'" + Excerpt(file.user) + "' is not the name of an account");
  RT_ASSIGN_OR_RETURN(file.key, LineAt(*auth, "auth", "ssh_private_key"));
  RT_ASSIGN_OR_RETURN(file.proxy_command, LineAt(*auth, "auth", "ssh_proxy_command"));
  return absl::OkStatus();
}

absl::Status ReadProviderKeys(const Json& provider, AwsFile& file) {
  for (const auto& [key, value] : provider.object())
    if (std::find(kAwsProviderKeys.begin(), kAwsProviderKeys.end(), key) == kAwsProviderKeys.end())
      return InvalidAt("provider/" + key, "unknown key '" + Excerpt(key) + "'",
                       DidYouMean(key, kAwsProviderKeys));
  for (const char* key :
       {"region", "availability_zone", "tags", "security_group", "programs", "dead_man_s",
        "endpoint"})
    if (const Json* value = provider.Find(key); value != nullptr && !value->is_null())
      file.provider.Set(key, *value);
  for (const char* key : {"cloudwatch", "key_pair", "disable_node_updaters"})
    if (provider.Find(key) != nullptr)
      file.warnings.push_back("provider." + std::string(key) + " is not used by this release");
  if (provider.GetBool("cache_stopped_nodes"))
    file.warnings.emplace_back(
        "cache_stopped_nodes is ignored: machines are terminated, so that "
        "nothing is paid for");
  file.uses_internal_addresses = provider.GetBool("use_internal_ips");
  file.head_port = kHeadPort;
  if (const Json* port = provider.Find("port"); port != nullptr && !port->is_null()) {
    if (!port->is_int() || port->AsInt() < 1 || port->AsInt() > 65'535 || port->AsInt() == kSshPort)
      return InvalidAt("provider/port", "port must be a whole number from 1 to 65535, and not 22");
    file.head_port = static_cast<int>(port->AsInt());
  }
  Json ports = Json::MakeArray();  // That of ssh is open while a client needs it.
  ports.Append(file.head_port);
  file.provider.Set("open_ports", std::move(ports));
  return absl::OkStatus();
}

absl::StatusOr<AwsFile> ReadUnplaced(const ClusterSpec& spec) {
  AwsFile file;
  file.provider = Json::MakeObject({{"type", "aws"}, {"cluster_name", spec.cluster_name}});
  RT_RETURN_IF_ERROR(ReadProviderKeys(*spec.document.value.Find("provider"), file));
  file.provider.Set("region", spec.region);
  RT_RETURN_IF_ERROR(ReadSsh(spec.document.value, file));
  const Json* docker = spec.document.value.Find("docker");
  if (docker != nullptr && docker->is_object() && !docker->GetString("image").empty())
    file.warnings.emplace_back(
        "docker is not used by this release: commands and trials run on the machines themselves");
  file.provider.Set("user", file.user);
  Json pools = Json::MakeObject();
  for (const NodePool& pool : spec.pools) {
    Json json = PoolJson(pool);
    RT_ASSIGN_OR_RETURN(Ec2Pool read, PoolOf(pool, json));
    if (pool.is_head) file.head = std::move(read);
    if (pool.is_head && pool.max_workers == 0) continue;
    json.Set("setup_commands", SetupOf(pool, spec.setup));
    pools.Set(pool.name, std::move(json));
    file.workers.push_back(pool);
    file.workers.back().max_workers = std::min(pool.max_workers, spec.max_workers);
  }
  if (file.head.name.empty())
    return InvalidAt("", "a cluster on aws needs a node type for its head",
                     "add head_node_type and available_node_types, or head_node");
  file.provider.Set("pools", std::move(pools));
  RT_RETURN_IF_ERROR(ReadAwsSetup(file.provider).status());
  return file;
}

}  // namespace

absl::StatusOr<AwsFile> ReadAwsFile(const ClusterSpec& spec) {
  absl::StatusOr<AwsFile> file = ReadUnplaced(spec);
  if (file.ok()) return file;
  return spec.document.At(file.status(), PositionOf(file.status()).file);
}

}  // namespace rt
