// The hosts of a cluster that is reached with ssh, as its file names them, and what is done to a
// host before its worker starts. Everything that becomes an argument of ssh is checked here. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/yaml/yaml_json.h"

namespace rt {

struct HostSpec {
  std::string name;       // Of its node; unique within the file.
  std::string address;    // As ssh takes it: a name of its configuration, a DNS name or an IP.
  int port = 0;           // 0: as ssh's configuration says.
  std::string user;       // Empty: the same.
  std::string key;        // File of the private key, as written; empty: the same.
  std::string resources;  // As rt-worker's --resources takes it; empty: all that the host has.
  std::string labels;     // As --labels takes it; may be empty.
};

struct HostList {
  std::vector<HostSpec> hosts;  // The head's first; at least one.
  std::string proxy_command;    // auth.ssh_proxy_command; may be empty.
  std::string directory;        // On the hosts, absolute; empty: ~/.rt-node.
  int head_port = 0;  // Where the head listens; 0: any, and the same again after a restart.
  // Of a cluster in a cloud, which its client has made up; empty: the head makes one. Addresses
  // there are used again by other machines, and the head's network may have another one for it.
  std::string cluster_id;
};

// {type: ssh, hosts: […], head: HOST} or Ray's {type: local, head_ip, worker_ips}, with the
// defaults of `auth`. `resources`: of hosts that do not say theirs. InvalidArgument with the
// position in the file.
absl::StatusOr<HostList> ReadHostList(const YamlDocument& document, const std::string& resources);

// Shell commands of the owner of the file, in the order in which they run.
struct SetupSpec {
  std::vector<std::string> initialization, common, head, worker;
  std::vector<std::pair<std::string, std::string>> file_mounts;  // Path there, path here.
  // What runs on the head's host, and on the others.
  std::vector<std::string> CommandsOf(bool is_head) const;
};
absl::StatusOr<SetupSpec> ReadSetup(const YamlDocument& document);

}  // namespace rt
