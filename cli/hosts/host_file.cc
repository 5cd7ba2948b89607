#include "cli/hosts/host_file.h"

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/run/files.h"

namespace rt {
namespace {

constexpr Bytes kHostFileMax = 4 << 20;

}  // namespace

std::string HostFile(const std::string& cluster_directory) {
  return cluster_directory + "/hosts.json";
}

absl::Status WriteHostFile(const std::string& cluster_directory, const HostList& list) {
  Json hosts = Json::MakeArray();
  for (const HostSpec& host : list.hosts)
    hosts.Append(Json::MakeObject({{"name", host.name},
                                   {"address", host.address},
                                   {"port", host.port},
                                   {"user", host.user},
                                   {"key", host.key},
                                   {"resources", host.resources},
                                   {"labels", host.labels}}));
  const Json json = Json::MakeObject({{"hosts", std::move(hosts)},
                                      {"proxy_command", list.proxy_command},
                                      {"directory", list.directory},
                                      {"head_port", list.head_port},
                                      {"cluster_id", list.cluster_id}});
  RT_RETURN_IF_ERROR(EnsureDirectory(cluster_directory));
  return WriteFileAtomic(HostFile(cluster_directory), json.Pretty() + "\n");
}

absl::StatusOr<HostList> ReadHostFile(const std::string& cluster_directory) {
  const std::string path = HostFile(cluster_directory);
  RT_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kHostFileMax));
  absl::StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), path);
  const Json* hosts = json->Find("hosts");
  if (hosts == nullptr || !hosts->is_array() || hosts->array().empty())
    return absl::DataLossError(ToAbsl(path + ": names no hosts"));
  HostList list;
  list.proxy_command = json->GetString("proxy_command");
  list.directory = json->GetString("directory");
  list.head_port = static_cast<int>(json->GetInt("head_port"));
  list.cluster_id = json->GetString("cluster_id");
  for (const Json& host : hosts->array())
    list.hosts.push_back({.name = host.GetString("name"),
                          .address = host.GetString("address"),
                          .port = static_cast<int>(host.GetInt("port")),
                          .user = host.GetString("user"),
                          .key = host.GetString("key"),
                          .resources = host.GetString("resources"),
                          .labels = host.GetString("labels")});
  return list;
}

}  // namespace rt
