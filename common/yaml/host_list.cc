#include "common/yaml/host_list.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/limits_hosts.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/yaml/node_fields.h"

namespace rt {
namespace {

using HostKeys = std::vector<std::string>;

const HostKeys kSshKeys = {"type", "hosts", "head", "directory", "port"};
// Of Ray's local provider. The others of its schema belong to clouds.
const HostKeys kRayLocalKeys = {"type",
                                "head_ip",
                                "worker_ips",
                                "external_head_ip",
                                "coordinator_address",
                                "cache_stopped_nodes",
                                "disable_node_updaters",
                                "use_internal_ips",
                                "directory",
                                "port"};
const HostKeys kHostKeys = {"name", "host", "port", "user", "key", "resources", "labels"};
constexpr size_t kNameMax = 255;

bool IsWordOf(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= kNameMax && text[0] != '-' && text[0] != '.' &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
           return is_plain || more.find(c) != std::string_view::npos;
         });
}

class HostReader {
 public:
  HostReader(const YamlDocument& document, const std::string& resources)
      : document_(document), provider_(*document.value.Find("provider")), resources_(resources) {}

  absl::StatusOr<HostList> Read() {
    HostList list;
    RT_RETURN_IF_ERROR(ReadAuth(list));
    RT_RETURN_IF_ERROR(ReadPlaces(list));
    const bool is_ours = provider_.GetString("type") == "ssh";
    RT_RETURN_IF_ERROR(CheckHostKeys(provider_, "provider", is_ours ? kSshKeys : kRayLocalKeys));
    RT_RETURN_IF_ERROR(is_ours ? ReadInventory(list) : ReadAddresses(list));
    if (list.hosts.size() > limits::kHostsMax)
      return WrongHost("provider", "at most " + std::to_string(limits::kHostsMax) + " hosts");
    NameHosts(list);
    RT_RETURN_IF_ERROR(CheckNames(list));
    if (is_ours) RT_RETURN_IF_ERROR(PutHeadFirst(list));
    return list;
  }

 private:
  absl::Status WrongHost(std::string_view path, const std::string& message,
                         const std::string& hint = "") const {
    return document_.At(Invalid(message, hint), path);
  }
  absl::Status CheckHostKeys(const Json& json, const std::string& path,
                             const HostKeys& known) const {
    if (!json.is_object()) return WrongHost(path, "'" + path + "' must be a map of keys");
    for (const auto& [key, value] : json.object())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return document_.At(Invalid("unknown key '" + Excerpt(key) + "'", DidYouMean(key, known)),
                            Below(path, key), true);
    return absl::OkStatus();
  }
  // Empty when it is absent.
  absl::StatusOr<std::string> ReadText(const Json& json, const std::string& path,
                                       const std::string& key) const {
    const Json* value = json.Find(key);
    if (value == nullptr || value->is_null()) return std::string();
    if (!value->is_string() || value->AsString().empty())
      return WrongHost(path + "/" + key, key + " must be a text");
    if (value->AsString().find_first_of(std::string_view("\0\n\r", 3)) != std::string::npos)
      return WrongHost(path + "/" + key, key + " must be one line");
    return value->AsString();
  }
  absl::StatusOr<std::string> ReadWord(const Json& json, const std::string& path,
                                       const std::string& key, std::string_view more) const {
    RT_ASSIGN_OR_RETURN(std::string text, ReadText(json, path, key));
    if (text.empty() || IsWordOf(text, more)) return text;
    return WrongHost(path + "/" + key, "'" + Excerpt(text) + "' is not a " + key +
                                           ": letters, digits, '-', '_' and '.'" +
                                           (more.empty() ? "" : ", and ':' in an address"));
  }
  absl::StatusOr<int> ReadPort(const Json& json, const std::string& path) const {
    const Json* port = json.Find("port");
    if (port == nullptr || port->is_null()) return 0;
    if (!port->is_int() || port->AsInt() < 1 || port->AsInt() > 65'535)
      return WrongHost(path + "/port", "port must be a whole number from 1 to 65535");
    return static_cast<int>(port->AsInt());
  }

  absl::Status ReadAuth(HostList& list) {
    const Json* auth = document_.value.Find("auth");
    if (auth == nullptr || auth->is_null()) return absl::OkStatus();
    RT_ASSIGN_OR_RETURN(user_, ReadWord(*auth, "auth", "ssh_user", ""));
    RT_ASSIGN_OR_RETURN(key_, ReadText(*auth, "auth", "ssh_private_key"));
    RT_ASSIGN_OR_RETURN(list.proxy_command, ReadText(*auth, "auth", "ssh_proxy_command"));
    return absl::OkStatus();
  }
  absl::Status ReadPlaces(HostList& list) const {
    RT_ASSIGN_OR_RETURN(list.head_port, ReadPort(provider_, "provider"));
    RT_ASSIGN_OR_RETURN(list.directory, ReadText(provider_, "provider", "directory"));
    if (list.directory.empty() || list.directory.starts_with('/')) return absl::OkStatus();
    return WrongHost("provider/directory", "the directory on the hosts must be an absolute path");
  }

  HostSpec Default() const {
    HostSpec host;
    host.user = user_;
    host.key = key_;
    host.resources = resources_;
    return host;
  }

  absl::Status ReadInventory(HostList& list) const {
    const Json* hosts = provider_.Find("hosts");
    if (hosts == nullptr || !hosts->is_array() || hosts->array().empty())
      return WrongHost("provider", "provider needs a list of hosts",
                       "hosts: [{host: gpu1.lan}, {host: gpu2.lan, user: me, port: 2222}]");
    for (size_t i = 0; i < hosts->array().size(); ++i) {
      RT_ASSIGN_OR_RETURN(HostSpec host,
                          ReadHost(hosts->array()[i], "provider/hosts/" + std::to_string(i)));
      list.hosts.push_back(std::move(host));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<HostSpec> ReadHost(const Json& json, const std::string& path) const {
    HostSpec host = Default();
    if (json.is_string()) return OfAddress(json.AsString(), path);
    RT_RETURN_IF_ERROR(CheckHostKeys(json, path, kHostKeys));
    RT_ASSIGN_OR_RETURN(host.name, ReadWord(json, path, "name", ""));
    RT_ASSIGN_OR_RETURN(host.address, ReadWord(json, path, "host", ":"));
    if (host.address.empty()) return WrongHost(path, "a host needs its address", "host: gpu1.lan");
    RT_ASSIGN_OR_RETURN(host.port, ReadPort(json, path));
    RT_ASSIGN_OR_RETURN(std::string user, ReadWord(json, path, "user", ""));
    if (!user.empty()) host.user = user;
    RT_ASSIGN_OR_RETURN(std::string key, ReadText(json, path, "key"));
    if (!key.empty()) host.key = key;
    RT_ASSIGN_OR_RETURN(std::string own,
                        ReadNodeResources(document_, json.Find("resources"), path + "/resources"));
    if (!own.empty()) host.resources = own;
    RT_ASSIGN_OR_RETURN(host.labels,
                        ReadNodeLabels(document_, json.Find("labels"), path + "/labels"));
    return host;
  }
  absl::StatusOr<HostSpec> OfAddress(const std::string& address, const std::string& path) const {
    HostSpec host = Default();
    host.address = address;
    if (!IsWordOf(address, ":"))
      return WrongHost(path, "'" + Excerpt(address) + "' is not the address of a host");
    return host;
  }
  absl::Status ReadAddresses(HostList& list) const {
    if (provider_.Find("coordinator_address") != nullptr)
      return WrongHost("provider/coordinator_address",
                       "rt needs no coordinator: name the hosts themselves",
                       "provider: {type: ssh, hosts: [gpu1.lan, gpu2.lan]}");
    RT_ASSIGN_OR_RETURN(std::string head, ReadText(provider_, "provider", "head_ip"));
    if (head.empty())
      return WrongHost("provider", "worker_ips need a head_ip", "head_ip: 10.0.0.1");
    RT_ASSIGN_OR_RETURN(HostSpec first, OfAddress(head, "provider/head_ip"));
    list.hosts.push_back(std::move(first));
    const Json* workers = provider_.Find("worker_ips");
    if (workers == nullptr || workers->is_null()) return absl::OkStatus();
    if (!workers->is_array()) return WrongHost("provider/worker_ips", "worker_ips must be a list");
    for (size_t i = 0; i < workers->array().size(); ++i) {
      const std::string path = "provider/worker_ips/" + std::to_string(i);
      const Json& address = workers->array()[i];
      if (!address.is_string()) return WrongHost(path, "an address must be a text");
      RT_ASSIGN_OR_RETURN(HostSpec host, OfAddress(address.AsString(), path));
      list.hosts.push_back(std::move(host));
    }
    return absl::OkStatus();
  }

  // Several hosts behind one address differ in their ports.
  static void NameHosts(HostList& list) {
    std::map<std::string, int> uses;
    for (const HostSpec& host : list.hosts) ++uses[host.address];
    for (HostSpec& host : list.hosts) {
      if (!host.name.empty()) continue;
      host.name = host.address;
      std::replace(host.name.begin(), host.name.end(), ':', '-');  // It names a directory as well.
      if (uses[host.address] > 1 && host.port != 0) host.name += "-" + std::to_string(host.port);
    }
  }
  absl::Status CheckNames(const HostList& list) const {
    std::set<std::string> names;
    for (const HostSpec& host : list.hosts)
      if (!names.insert(host.name).second)
        return WrongHost("provider", "two hosts are called '" + host.name + "'",
                         "give each its own 'name', or name each host once");
    return absl::OkStatus();
  }
  absl::Status PutHeadFirst(HostList& list) const {
    RT_ASSIGN_OR_RETURN(std::string head, ReadText(provider_, "provider", "head"));
    if (head.empty()) return absl::OkStatus();
    HostKeys names;
    for (size_t i = 0; i < list.hosts.size(); ++i) {
      names.push_back(list.hosts[i].name);
      if (head != list.hosts[i].name && head != list.hosts[i].address) continue;
      const auto at = list.hosts.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(list.hosts.begin(), at, at + 1);
      return absl::OkStatus();
    }
    return WrongHost("provider/head", "head '" + Excerpt(head) + "' is not in the list of hosts",
                     DidYouMean(head, names));
  }

  const YamlDocument& document_;
  const Json& provider_;
  const std::string& resources_;
  std::string user_, key_;
};

}  // namespace

absl::StatusOr<HostList> ReadHostList(const YamlDocument& document, const std::string& resources) {
  return HostReader(document, resources).Read();
}

std::vector<std::string> SetupSpec::CommandsOf(bool is_head) const {
  std::vector<std::string> commands = initialization;
  commands.insert(commands.end(), common.begin(), common.end());
  const std::vector<std::string>& own = is_head ? head : worker;
  commands.insert(commands.end(), own.begin(), own.end());
  return commands;
}

absl::StatusOr<SetupSpec> ReadSetup(const YamlDocument& document) {
  SetupSpec setup;
  auto read = [&document](const std::string& key) {
    return ReadCommands(document, document.value.Find(key), key);
  };
  RT_ASSIGN_OR_RETURN(setup.initialization, read("initialization_commands"));
  RT_ASSIGN_OR_RETURN(setup.common, read("setup_commands"));
  RT_ASSIGN_OR_RETURN(setup.head, read("head_setup_commands"));
  RT_ASSIGN_OR_RETURN(setup.worker, read("worker_setup_commands"));
  const Json* mounts = document.value.Find("file_mounts");
  if (mounts == nullptr || mounts->is_null()) return setup;
  if (!mounts->is_object())
    return document.At(Invalid("file_mounts must map paths there to paths here",
                               "file_mounts: {/home/me/data: ./data}"),
                       "file_mounts");
  for (const auto& [there, here] : mounts->object()) {
    const std::string path = "file_mounts/" + there;
    const bool is_whole = there.starts_with('/') || there.starts_with("~/");
    if (!is_whole || there.find('\0') != std::string::npos)
      return document.At(Invalid("a path on the nodes must be absolute or begin with ~/"), path,
                         true);
    if (!here.is_string() || here.AsString().empty())
      return document.At(Invalid("the path of a local file or directory is missing"), path);
    setup.file_mounts.emplace_back(there, here.AsString());
  }
  return setup;
}

}  // namespace rt
